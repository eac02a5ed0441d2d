// SPDX-License-Identifier: Apache-2.0
#include "kiln/persistent_cache/store.h"

#include <time.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kiln/base/log.h"
#include "kiln/base/status_macros.h"
#include "kiln/persistent_cache/directory.h"

namespace kiln {
namespace {

constexpr absl::string_view kSuffix = ".entry";
constexpr char kTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory holds compiled kernels of Kiln; it can be removed at any time.\n";

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The decoded entry if it is whole and is the one of `key` (and of `preimage`, unless null).
absl::StatusOr<Entry> Check(absl::string_view file, const CacheKey& key,
                            const std::string* preimage) {
  KILN_ASSIGN_OR_RETURN(Entry entry, DecodeEntry(file));
  if (entry.key != key)
    return absl::DataLossError(absl::StrCat("entry: holds key ", ToHex(entry.key)));
  const std::string* const stored = entry.Find("preimage");
  if (stored == nullptr || Sha256(*stored) != key)
    return absl::DataLossError("entry: key and preimage do not match");
  if (preimage != nullptr && *stored != *preimage)
    return absl::DataLossError("entry: holds another preimage");
  return entry;
}

}  // namespace

Store::Store(FileSystem& files, StoreOptions options)
    : files_(files), options_(std::move(options)), root_(absl::StrCat(options_.directory, "/v1")) {}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(FileSystem& files, StoreOptions options) {
  KILN_ASSIGN_OR_RETURN(options.directory, PrepareCacheDirectory(files, options.directory));
  std::unique_ptr<Store> store(new Store(files, std::move(options)));
  if (store->options_.read_only) return store;
  const std::string tag = absl::StrCat(store->options_.directory, "/CACHEDIR.TAG");
  if (!files.Stat(tag).ok()) {
    // Only backup programs read it: a directory without it still works.
    if (auto file = files.CreateExclusive(tag, 0600); file.ok())
      (*file)->Append(kTag).IgnoreError();
  }
  for (const char* part : {"", "/e", "/tmp", "/q"}) {
    KILN_RETURN_IF_ERROR(files.MakeDir(absl::StrCat(store->root_, part), 0700));
  }
  return store;
}

std::string Store::PathOf(const CacheKey& key) const {
  const std::string hex = ToHex(key);
  return absl::StrCat(root_, "/e/", hex.substr(0, 2), "/", hex.substr(2), kSuffix);
}

std::optional<Entry> Store::Lookup(const Preimage& preimage) {
  const CacheKey key = preimage.Key();
  const absl::StatusOr<std::string> file = files_.ReadFile(PathOf(key), kMaxEntryBytes);
  if (!file.ok()) {
    ++misses_;
    if (!absl::IsNotFound(file.status())) SetAside(key, file.status());
    return std::nullopt;
  }
  absl::StatusOr<Entry> entry = Check(*file, key, &preimage.bytes());
  if (!entry.ok()) {
    ++misses_;
    SetAside(key, entry.status());
    return std::nullopt;
  }
  ++hits_;
  return *std::move(entry);
}

void Store::SetAside(const CacheKey& key, const absl::Status& why) {
  ++damaged_;
  if (!warned_.exchange(true)) {
    LogWarning("cache \"", options_.directory, "\": entry ", ToHex(key).substr(0, 12),
               " is not usable: ", why.message(),
               "; it is built again (further ones are counted, not told)");
  }
  if (options_.read_only) return;
  // A failing disk or a vanished file leaves it where it is; publishing replaces it.
  const std::string to = absl::StrCat(root_, "/q/", ToHex(key), ".", NowNs());
  files_.Rename(PathOf(key), to).IgnoreError();
}

absl::Status Store::WriteTemporary(const std::string& path, const std::string& bytes) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                        files_.CreateExclusive(path, 0600));
  absl::Status done = file->Append(bytes);
  if (done.ok()) done = file->Sync();
  const absl::Status closed = file->Close();
  return done.ok() ? closed : done;
}

absl::Status Store::Publish(const Entry& entry) {
  if (options_.read_only) return absl::FailedPreconditionError("cache: opened read-only");
  const std::string bytes = EncodeEntry(entry);
  KILN_RETURN_IF_ERROR(Check(bytes, entry.key, nullptr).status());
  const std::string path = PathOf(entry.key);
  const std::string temporary =
      absl::StrCat(root_, "/tmp/", getpid(), "-", NowNs(), "-", temporaries_++);
  absl::Status done = files_.MakeDir(path.substr(0, path.rfind('/')), 0700);
  if (done.ok()) done = WriteTemporary(temporary, bytes);
  if (done.ok()) done = files_.Rename(temporary, path);
  if (!done.ok()) {
    ++publish_failures_;
    files_.Unlink(temporary).IgnoreError();
    return done;
  }
  ++published_;
  return absl::OkStatus();
}

absl::StatusOr<Entry> Store::Read(const CacheKey& key) {
  KILN_ASSIGN_OR_RETURN(const std::string file, files_.ReadFile(PathOf(key), kMaxEntryBytes));
  return Check(file, key, nullptr);
}

absl::StatusOr<std::vector<EntryInfo>> Store::List() {
  std::vector<EntryInfo> entries;
  const std::string top = absl::StrCat(root_, "/e");
  absl::StatusOr<std::vector<std::string>> shards = files_.ListDir(top);
  if (absl::IsNotFound(shards.status())) return entries;
  KILN_RETURN_IF_ERROR(shards.status());
  for (const std::string& shard : *shards) {
    const std::string folder = absl::StrCat(top, "/", shard);
    const absl::StatusOr<std::vector<std::string>> names = files_.ListDir(folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      const std::optional<CacheKey> key =
          ParseHexDigest(absl::StrCat(shard, absl::StripSuffix(name, kSuffix)));
      const absl::StatusOr<FileInfo> info = files_.Stat(absl::StrCat(folder, "/", name));
      if (!key.has_value() || !absl::EndsWith(name, kSuffix) || !info.ok() || !info->is_regular)
        continue;
      entries.push_back({*key, info->size, info->allocated_bytes, info->mtime_ns});
    }
  }
  return entries;
}

absl::Status Store::Remove(const CacheKey& key) { return files_.Unlink(PathOf(key)); }

absl::StatusOr<int64_t> Store::Clear() {
  KILN_ASSIGN_OR_RETURN(const std::vector<EntryInfo> entries, List());
  int64_t removed = 0;
  for (const EntryInfo& entry : entries) {
    const absl::Status done = Remove(entry.key);
    if (done.ok()) ++removed;
    if (!done.ok() && !absl::IsNotFound(done)) return done;
  }
  for (const char* part : {"/tmp", "/q"}) {
    const std::string folder = absl::StrCat(root_, part);
    const absl::StatusOr<std::vector<std::string>> names = files_.ListDir(folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names)
      files_.Unlink(absl::StrCat(folder, "/", name)).IgnoreError();
  }
  return removed;
}

StoreCounters Store::counters() const {
  return {hits_.load(), misses_.load(), published_.load(), publish_failures_.load(),
          damaged_.load()};
}

}  // namespace kiln
