// SPDX-License-Identifier: Apache-2.0
// What a store does besides looking up and publishing: quarantine, counts, lists, removal.
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "persistent_cache/store.h"

namespace kiln {
namespace {

constexpr int64_t kPruneEveryNs = 60'000'000'000;
// One flush in so many also compacts: as many small files lie around at most, about.
constexpr int64_t kCompactEvery = 64;

}  // namespace

void Store::Tell(const CacheKey& key, const absl::Status& why) {
  CacheCounts counts;
  counts.damaged = 1;
  Count("", counts);
  Emit(CacheEvent::Kind::kDamaged, key, "");
  if (warned_.exchange(true)) return;
  LogWarning("cache \"", options_.directory, "\": entry ", ToHex(key).substr(0, 12),
             " is not usable: ", why.message(),
             "; it is built again (further ones are counted, not told)");
}

// Moves a bad file out of the way, unless it is no more the one that was read (`info`; null: there
// was nothing to read).
void Store::SetAside(const std::string& path, const CacheKey& key, const FileInfo* info,
                     const absl::Status& why) {
  if (options_.read_only) return;
  const absl::StatusOr<FileInfo> now = files_.Stat(path);
  if (!now.ok()) return;
  if (info != nullptr && (now->inode != info->inode || now->device != info->device)) return;
  const char* const reason = absl::IsDataLoss(why) ? "damaged" : "not-a-file-of-ours";
  const std::string to =
      absl::StrCat(layout_.Quarantine(), "/", ToHex(key), ".", reason, ".", SystemNowNs());
  if (!files_.Rename(path, to).ok()) return;
  files_.Touch(to).IgnoreError();  // its time in quarantine begins
  TrimQuarantine(files_, layout_, Now(), /*dry_run=*/false);
}

absl::StatusOr<Entry> Store::Read(const CacheKey& key) {
  KILN_ASSIGN_OR_RETURN(const std::string file,
                        files_.ReadFile(layout_.FileOf(key), kMaxEntryBytes));
  return DecodeEntryOf(file, key, nullptr);
}

absl::StatusOr<std::string> Store::Peek(const CacheKey& key, absl::string_view tag) {
  KILN_ASSIGN_OR_RETURN(const auto file, files_.OpenRead(layout_.FileOf(key)));
  return PeekSection(*file, tag);
}

absl::StatusOr<std::vector<EntryInfo>> Store::List() {
  if (layout_.root.empty()) return std::vector<EntryInfo>();
  return ListEntries(files_, layout_);
}

absl::Status Store::Remove(const CacheKey& key) { return files_.Unlink(layout_.FileOf(key)); }

absl::StatusOr<int64_t> Store::Clear() {
  KILN_ASSIGN_OR_RETURN(const std::vector<EntryInfo> entries, List());
  int64_t removed = 0;
  for (const EntryInfo& entry : entries) {
    const absl::Status done = Remove(entry.key);
    if (done.ok()) ++removed;
    if (!done.ok() && !absl::IsNotFound(done)) return done;
  }
  for (const std::string& folder : {layout_.Temporaries(), layout_.Quarantine()}) {
    const absl::StatusOr<std::vector<std::string>> names = files_.ListDir(folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names)
      files_.Unlink(absl::StrCat(folder, "/", name)).IgnoreError();
  }
  return removed;
}

absl::StatusOr<PruneReport> Store::Prune(int64_t max_bytes, bool dry_run) {
  KILN_ASSIGN_OR_RETURN(PruneReport report,
                        kiln::Prune(files_, layout_, {max_bytes, Now(), dry_run}));
  if (dry_run) return report;
  for (const auto& [target, evictions] : report.evicted_by_target) {
    CacheCounts counts;
    counts.evictions = evictions;
    Count(target, counts);
  }
  for (const EntryInfo& entry : report.evicted) Emit(CacheEvent::Kind::kEvicted, entry.key, "");
  return report;
}

// After a publication: at most once a minute among all processes, and on a thread of its own.
// Whoever publishes may be about to run a model.
void Store::PruneNowAndThen() {
  if (getpid() != owner_) return;
  const int64_t now = Now();
  int64_t after = prune_after_ns_;
  if (now < after || !prune_after_ns_.compare_exchange_strong(after, now + kPruneEveryNs)) return;
  const absl::StatusOr<FileInfo> stamp = files_.Stat(layout_.PruneStamp());
  if (stamp.ok() && now - stamp->mtime_ns < kPruneEveryNs && stamp->mtime_ns <= now) return;
  if (stamp.ok()) {
    files_.Touch(layout_.PruneStamp()).IgnoreError();
  } else {
    files_.CreateExclusive(layout_.PruneStamp(), 0600).status().IgnoreError();
  }
  const LongMutexLock lock(pruning_mutex_);
  if (is_pruning_.exchange(true)) return;
  pruning_.Join();  // it has ended
  absl::StatusOr<Thread> started = Thread::Start([this] {
    const absl::Status pruned = CatchExceptions(
        "cache", [this] { return Prune(options_.max_bytes, /*dry_run=*/false).status(); });
    if (!pruned.ok()) LogDebug("cache: not pruned: ", pruned.message());
    FlushStatistics();
    is_pruning_ = false;
  });
  if (started.ok())
    pruning_ = *std::move(started);
  else
    is_pruning_ = false;  // no thread to be had: another time
}

void Store::WaitUntilPruned() {
  const LongMutexLock lock(pruning_mutex_);
  pruning_.Join();
}

void Store::Count(absl::string_view target, const CacheCounts& counts) {
  const MutexLock lock(mutex_);
  total_ += counts;
  pending_.targets[StatisticsName(target)] += counts;
}

void Store::CountUse(const CacheKey& key) {
  const MutexLock lock(mutex_);
  ++pending_.uses[key];
}

void Store::Emit(CacheEvent::Kind kind, const CacheKey& key, std::string target, uint64_t ms) {
  if (!options_.on_event) return;
  const absl::Status told = CatchExceptions("on_event", [&] {
    options_.on_event({kind, key, std::move(target), ms});
    return absl::OkStatus();
  });
  if (!told.ok()) LogWarning("cache: ", told.message());
}

void Store::FlushStatistics() {
  if (options_.read_only || getpid() != owner_) return;
  CacheStatistics taken;
  {
    const MutexLock lock(mutex_);
    if (pending_.targets.empty()) return;
    taken = std::exchange(pending_, {});
    pending_.since_ns = Now();
  }
  AddStatistics(files_, layout_, taken).IgnoreError();
  if (SystemNowNs() / 1000 % kCompactEvery == 0) CompactStatistics(files_, layout_);
}

CacheStatistics Store::Statistics() {
  CacheStatistics all = ReadStatistics(files_, layout_);
  const MutexLock lock(mutex_);
  if (!pending_.targets.empty()) all.Merge(pending_);
  return all;
}

absl::Status Store::ZeroStatistics() {
  if (options_.read_only) return absl::FailedPreconditionError("cache: opened read-only");
  {
    const MutexLock lock(mutex_);
    pending_.targets.clear();
  }
  return kiln::ZeroStatistics(files_, layout_, Now());
}

CacheCounters Store::counters() const {
  const MutexLock lock(mutex_);
  return {.hits = total_.hits,
          .misses = total_.misses,
          .published = total_.builds,
          .failures = total_.failures,
          .publish_failures = publish_failures_.load(),
          .damaged = total_.damaged,
          .evictions = total_.evictions,
          .saved_ms = total_.saved_ms};
}

}  // namespace kiln
