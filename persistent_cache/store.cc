// SPDX-License-Identifier: Apache-2.0
// Opening, looking up and publishing. Everything else a store does is in store_upkeep.cc.
#include "persistent_cache/store.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/real_path.h"
#include "base/status_macros.h"
#include "persistent_cache/directory.h"

namespace kiln {
namespace {

constexpr char kTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory holds compiled kernels of Kiln; it can be removed at any time.\n";
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTouchEvery = 3600 * kSecond;
constexpr int64_t kFailureSeconds = 24 * 3600;
constexpr int64_t kMinFreeBytes = int64_t{256} << 20;

// Whether content is wrong, as against a disk or a system that refuses just now.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
         absl::IsOutOfRange(status);
}

// Refuses a file that others than root and we can have written.
absl::Status CheckFile(const FileInfo& info) {
  if ((info.uid != 0 && info.uid != geteuid()) || (info.mode & 0022) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("entry: owned by user ", info.uid, " or writable by others"));
  }
  if (info.size > kMaxEntryBytes)
    return absl::OutOfRangeError(absl::StrCat("entry: ", info.size, " bytes are too many"));
  return absl::OkStatus();
}

absl::StatusOr<Entry> ReadEntry(ReadableFile& file, const CacheKey& key,
                                const std::string& preimage) {
  KILN_RETURN_IF_ERROR(CheckFile(file.info()));
  KILN_ASSIGN_OR_RETURN(const std::string bytes, file.Read(0, file.info().size));
  return DecodeEntryOf(bytes, key, &preimage);
}

// That nobody else can put files between ours: the directories within are as safe as the one that
// the user named.
absl::Status CheckEntries(FileSystem& files, const StoreLayout& layout) {
  return PrepareCacheDirectory(files, layout.Entries(), /*make=*/false).status();
}

// Programs, validations and what else belongs to a model are no kernels: hits, misses and
// publications are counted and told of those.
bool IsCounted(absl::string_view preimage) {
  const std::string artefact = FieldOf(preimage, "artefact");
  return artefact.empty() || absl::StrContains(artefact, "kernel");
}

constexpr size_t kBlobAlignment = 64;  // of the section "blob" in its file

size_t BlobOffset(absl::string_view file, absl::string_view blob) {
  return static_cast<size_t>(blob.data() - file.data());
}

// The file of the entry, with a section of zeros before the blob that puts it where it must be.
absl::StatusOr<std::string> EncodeBlob(Entry& entry, absl::string_view bytes) {
  entry.Add("pad", "", false);
  entry.Add("blob", "", true);
  const std::string empty = EncodeEntry(entry);
  KILN_ASSIGN_OR_RETURN(const auto views, ViewEntryOf(empty, entry.key, *entry.Find("preimage"),
                                                      /*checksum=*/false));
  const size_t at = BlobOffset(empty, views.back().bytes);
  entry.sections[entry.sections.size() - 2].bytes.assign(
      (kBlobAlignment - at % kBlobAlignment) % kBlobAlignment, '\0');
  entry.sections.back().bytes = std::string(bytes);
  return EncodeEntry(entry);
}

uint64_t MsOf(const std::string& text) {
  double ms = 0;
  return absl::SimpleAtod(text, &ms) && ms > 0 ? static_cast<uint64_t>(std::min(ms, 1e9)) : 0;
}

}  // namespace

Store::Store(FileSystem& files, StoreOptions options)
    : files_(files),
      options_(std::move(options)),
      layout_{options_.directory.empty() ? "" : options_.directory + "/v1"},
      owner_(getpid()) {
  pending_.since_ns = Now();
}

Store::~Store() {
  WaitUntilPruned();
  CatchExceptions("cache", [&] {
    FlushStatistics();
    return absl::OkStatus();
  }).IgnoreError();
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(FileSystem& files, StoreOptions options) {
  if (options.directory.empty()) {
    options.read_only = true;
  } else {
    KILN_ASSIGN_OR_RETURN(options.directory, PrepareCacheDirectory(files, options.directory,
                                                                   /*make=*/!options.read_only));
  }
  std::unique_ptr<Store> store(new Store(files, std::move(options)));
  store->OpenLayers();
  const absl::StatusOr<DiskInfo> disk = files.Disk(store->options_.directory);
  store->local_ = disk.ok() && !disk->network;
  if (store->options_.read_only) {
    if (!store->layout_.root.empty()) KILN_RETURN_IF_ERROR(CheckEntries(files, store->layout_));
    return store;
  }
  KILN_RETURN_IF_ERROR(store->Prepare());
  store->locks_ = store->local_;
  return store;
}

void Store::OpenLayers() {
  for (const std::string& path : options_.packs) {
    auto pack = Pack::Open(files_, RealPath(path), options_.trust);
    if (pack.ok()) {
      packs_.push_back(*std::move(pack));
    } else {
      LogWarning("kernels are not taken from a pack: ", pack.status().message());
    }
  }
  if (options_.shared_directory.empty()) return;
  const auto shared = PrepareCacheDirectory(files_, options_.shared_directory, /*make=*/false);
  const StoreLayout layout{shared.ok() ? *shared + "/v1" : ""};
  const absl::Status safe = shared.ok() ? CheckEntries(files_, layout) : shared.status();
  if (safe.ok()) shared_ = layout;
  if (!safe.ok()) LogWarning("shared cache is not used: ", safe.message());
}

// Makes what is missing of the directory.
absl::Status Store::Prepare() {
  KILN_RETURN_IF_ERROR(PrepareCacheDirectory(files_, options_.directory, /*make=*/true).status());
  const std::string tag = absl::StrCat(options_.directory, "/CACHEDIR.TAG");
  if (!files_.Stat(tag).ok()) {
    // Only backup programs read it: a directory without it still works.
    if (auto file = files_.CreateExclusive(tag, 0600); file.ok())
      (*file)->Append(kTag).IgnoreError();
  }
  for (const std::string& part : {layout_.root, layout_.Entries(), layout_.Temporaries(),
                                  layout_.Quarantine(), layout_.Locks(), layout_.Statistics()}) {
    KILN_RETURN_IF_ERROR(files_.MakeDir(part, 0700));
  }
  return CheckEntries(files_, layout_);
}

std::optional<Entry> Store::Lookup(const Preimage& preimage) { return Find(preimage, false); }

std::optional<Entry> Store::LookupAgain(const Preimage& preimage) { return Find(preimage, true); }

std::optional<Entry> Store::Find(const Preimage& preimage, bool again) {
  const CacheKey key = preimage.Key();
  std::optional<Entry> entry = FindInPacks(preimage, key);
  if (!entry.has_value()) entry = FindIn(layout_, /*own=*/true, preimage, key);
  if (!entry.has_value()) entry = FindIn(shared_, /*own=*/false, preimage, key);
  if (!IsCounted(preimage.bytes())) return entry;
  CacheCounts counts;
  if (entry.has_value()) {
    counts.hits = 1;
    counts.saved_ms = MsOf(MetaOf(*entry)["wall_ms"]);
    if (again) counts.misses = ~uint64_t{0};  // takes the miss back: sums are modulo 2^64
  } else {
    counts.misses = again ? 0 : 1;
  }
  std::string target = FieldOf(preimage.bytes(), "target");
  if (entry.has_value()) CountUse(key);
  Count(target, counts);
  if (entry.has_value() || !again) {
    Emit(entry.has_value() ? CacheEvent::Kind::kHit : CacheEvent::Kind::kMiss, key,
         std::move(target), counts.saved_ms);
  }
  return entry;
}

std::optional<Entry> Store::FindIn(const StoreLayout& layout, bool own, const Preimage& preimage,
                                   const CacheKey& key) {
  if (layout.root.empty()) return std::nullopt;
  const std::string path = layout.FileOf(key);
  const auto file = files_.OpenRead(path);
  if (absl::IsNotFound(file.status())) return std::nullopt;
  absl::StatusOr<Entry> entry =
      file.ok() ? ReadEntry(**file, key, preimage.bytes()) : file.status();
  if (!entry.ok()) {
    Tell(key, entry.status());
    if (own && IsDamage(entry.status()))
      SetAside(path, key, file.ok() ? &(*file)->info() : nullptr, entry.status());
    return std::nullopt;
  }
  if (IsExpired(*entry)) return std::nullopt;
  if (own) KeepFresh(path, (*file)->info());
  return *std::move(entry);
}

bool Store::IsExpired(const Entry& entry) const {
  if (entry.Find("failure") == nullptr) return false;
  int64_t expires = 0;
  const int64_t now = Now() / kSecond;
  // One that ends later than any can was written under another clock.
  return !absl::SimpleAtoi(MetaOf(entry)["expires"], &expires) || expires <= now ||
         expires > now + kFailureSeconds;
}

std::optional<Entry> Store::FindInPacks(const Preimage& preimage, const CacheKey& key) {
  for (const std::unique_ptr<Pack>& pack : packs_) {
    absl::StatusOr<Entry> entry = pack->Read(key, &preimage.bytes());
    if (entry.ok() && !IsExpired(*entry)) return *std::move(entry);
    if (!entry.ok() && !absl::IsNotFound(entry.status())) Tell(key, entry.status());
  }
  return std::nullopt;
}

// Last use is the time of the file, renewed once an hour: no reliance on atime, and few writes.
void Store::KeepFresh(const std::string& path, const FileInfo& info) {
  if (!options_.read_only && Now() - info.mtime_ns > kTouchEvery) files_.Touch(path).IgnoreError();
}

KeyLock Store::LockKey(const CacheKey& key, absl::Duration timeout) {
  if (options_.read_only || !locks_) return KeyLock();
  const absl::Time end = absl::Now() + timeout;
  absl::Duration pause = absl::Microseconds(500);
  for (;;) {
    auto lock = files_.TryLock(layout_.LockFileOf(key), StoreLayout::LockOffsetOf(key));
    if (absl::IsNotFound(lock.status()) && Prepare().ok())  // the directory was removed under us
      lock = files_.TryLock(layout_.LockFileOf(key), StoreLayout::LockOffsetOf(key));
    if (!lock.ok()) {
      if (absl::IsUnavailable(lock.status())) locks_ = false;  // none on this disk: ask no more
      LogDebug("cache: no locks, processes may build the same: ", lock.status().message());
      return KeyLock();
    }
    if (*lock != nullptr) return KeyLock(*std::move(lock));
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return KeyLock();
    absl::SleepFor(std::min(pause, left));
    pause = std::min(pause * 2, absl::Milliseconds(20));
  }
}

absl::Status Store::Publish(const Entry& entry) {
  if (options_.read_only) return absl::FailedPreconditionError("cache: opened read-only");
  const std::string bytes = EncodeEntry(entry);
  KILN_RETURN_IF_ERROR(DecodeEntryOf(bytes, entry.key, nullptr).status());
  absl::Status done = WriteEntry(entry.key, bytes, /*durable=*/true);
  if (absl::IsNotFound(done) && Prepare().ok())  // the directory was removed under us
    done = WriteEntry(entry.key, bytes, /*durable=*/true);
  const std::string& preimage = *entry.Find("preimage");
  std::string target = FieldOf(preimage, "target");
  if (!done.ok()) {
    ++publish_failures_;
    Emit(CacheEvent::Kind::kNotPublished, entry.key, std::move(target));
    return done;
  }
  CacheCounts counts;
  (entry.Find("failure") != nullptr ? counts.failures : counts.builds) = 1;
  if (IsCounted(preimage)) {
    Count(target, counts);
    Emit(CacheEvent::Kind::kPublished, entry.key, std::move(target));
  }
  PruneNowAndThen();
  return absl::OkStatus();
}

absl::Status Store::PublishFailure(const Preimage& preimage, absl::string_view error,
                                   std::map<std::string, std::string> meta) {
  meta["expires"] = absl::StrCat(Now() / kSecond + kFailureSeconds);
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", FormatMeta(meta), true);
  entry.Add("failure", std::string(error), true);
  return Publish(entry);
}

absl::Status Store::WriteEntry(const CacheKey& key, absl::string_view bytes, bool durable) {
  const absl::StatusOr<DiskInfo> disk = files_.Disk(layout_.root);
  const int64_t needed = static_cast<int64_t>(bytes.size());
  if (disk.ok() && disk->free_bytes - needed < std::min(kMinFreeBytes, disk->total_bytes / 100)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cache \"", options_.directory, "\": the disk has only ", disk->free_bytes,
        " bytes left; make room, or choose another with --cache-dir or KILN_CACHE_DIR"));
  }
  const std::string shard = layout_.ShardOf(key);
  absl::Status done = files_.MakeDir(shard, 0700);
  if (absl::IsAlreadyExists(done)) {  // a file or a link: not ours, and in the way
    SetAside(shard, key, nullptr, done);
    done = files_.MakeDir(shard, 0700);
  }
  KILN_RETURN_IF_ERROR(done);
  return WriteWhole(files_, layout_, layout_.FileOf(key), bytes, durable);
}

absl::Status Store::PublishBlob(const Preimage& preimage, absl::string_view bytes,
                                std::map<std::string, std::string> meta) {
  if (options_.read_only) return absl::FailedPreconditionError("cache: opened read-only");
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", FormatMeta(meta), true);
  KILN_ASSIGN_OR_RETURN(const std::string file, EncodeBlob(entry, bytes));
  if (file.size() > static_cast<size_t>(kMaxEntryBytes))
    return absl::OutOfRangeError(absl::StrCat("blob: ", bytes.size(), " bytes are too many"));
  absl::Status done = WriteEntry(entry.key, file, /*durable=*/false);
  if (absl::IsNotFound(done) && Prepare().ok())  // the directory was removed under us
    done = WriteEntry(entry.key, file, /*durable=*/false);
  if (!done.ok()) {
    ++publish_failures_;
    return done;
  }
  PruneNowAndThen();
  return absl::OkStatus();
}

bool Store::Holds(const CacheKey& key) {
  return !layout_.root.empty() && files_.Stat(layout_.FileOf(key)).ok();
}

absl::StatusOr<MappedBlob> Store::ReadBlob(
    const StoreLayout& layout, const Preimage& preimage, const CacheKey& key,
    const std::function<bool(const FileIdentity&)>& was_checked) {
  const bool own = &layout == &layout_;
  const std::string path = layout.FileOf(key);
  const auto file = files_.OpenRead(path);
  if (absl::IsNotFound(file.status())) return file.status();
  const FileInfo* const info = file.ok() ? &(*file)->info() : nullptr;
  const auto read = [&]() -> absl::StatusOr<MappedBlob> {
    KILN_RETURN_IF_ERROR(file.status());
    KILN_RETURN_IF_ERROR(CheckFile(*info));
    const FileIdentity identity = IdentityOf(*info);
    // What other machines may cut short is not mapped, and what they may write is checked each
    // time.
    const bool ours = own && local_;
    KILN_ASSIGN_OR_RETURN(ReadableFile::Mapping mapping,
                          ours ? (*file)->Map() : (*file)->ReadableFile::Map());
    KILN_ASSIGN_OR_RETURN(const auto views, ViewEntryOf(mapping.bytes, key, preimage.bytes(),
                                                        !ours || !was_checked(identity)));
    for (const SectionView& view : views) {
      if (view.tag != "blob") continue;
      if (BlobOffset(mapping.bytes, view.bytes) % kBlobAlignment != 0)
        return absl::DataLossError("entry: its blob is not aligned");
      return MappedBlob{view.bytes, std::move(mapping.owner), identity};
    }
    return absl::DataLossError("entry: has no blob");
  };
  absl::StatusOr<MappedBlob> blob = read();
  if (blob.ok() && own) KeepFresh(path, *info);
  if (!blob.ok()) {
    Tell(key, blob.status());
    if (own && IsDamage(blob.status())) SetAside(path, key, info, blob.status());
  }
  return blob;
}

std::optional<MappedBlob> Store::FindBlob(
    const Preimage& preimage, const std::function<bool(const FileIdentity&)>& was_checked) {
  const CacheKey key = preimage.Key();
  for (const StoreLayout* layout : {&layout_, &shared_}) {
    if (layout->root.empty()) continue;
    absl::StatusOr<MappedBlob> blob = ReadBlob(*layout, preimage, key, was_checked);
    if (blob.ok()) return *std::move(blob);
  }
  return std::nullopt;
}

}  // namespace kiln
