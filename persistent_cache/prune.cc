// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/prune.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "persistent_cache/entry.h"

namespace kiln {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHour = 3600 * kSecond;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kYoung = 60 * kSecond;
constexpr int64_t kStaleTemporary = kHour;
// A live process may have the number of the one that made the file: this long is too long for any.
constexpr int64_t kForgottenTemporary = kDay;
constexpr size_t kMaxQuarantined = 64;
constexpr int64_t kMaxQuarantinedBytes = int64_t{64} << 20;
constexpr int64_t kMaxQuarantinedAge = 7 * kDay;

struct FoundFile {
  std::string path, name;
  FileInfo info;
};

// The files of one directory; those that vanish meanwhile are left out.
std::vector<FoundFile> FilesOf(FileSystem& files, const std::string& folder) {
  std::vector<FoundFile> found;
  const auto names = files.ListDir(folder);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (const absl::StatusOr<FileInfo> info = files.Stat(path); info.ok())
      found.push_back({path, name, *info});
  }
  return found;
}

int64_t SweepTemporaries(FileSystem& files, const StoreLayout& layout,
                         const PruneOptions& options) {
  int64_t removed = 0;
  for (const FoundFile& file : FilesOf(files, layout.Temporaries())) {
    const int64_t age = options.now_ns - file.info.mtime_ns;
    if (age < kStaleTemporary || (age < kForgottenTemporary && !MakerIsGone(file.name))) continue;
    if (options.dry_run || files.Unlink(file.path).ok()) ++removed;
  }
  return removed;
}

struct Candidate {
  EntryInfo info;
  std::string target;
  int idle_class = 0;        // greater goes first
  double ms_per_byte = 0.0;  // less goes first
};

Candidate Judge(FileSystem& files, const StoreLayout& layout, const EntryInfo& info,
                int64_t now_ns) {
  Candidate candidate{info, "", 0, 0.0};
  const int64_t idle_hours = std::max<int64_t>(0, now_ns - info.mtime_ns) / kHour;
  candidate.idle_class = std::bit_width(static_cast<uint64_t>(idle_hours));
  const auto file = files.OpenRead(layout.FileOf(info.key));
  if (!file.ok()) return candidate;
  const absl::StatusOr<std::string> text = PeekSection(**file, "meta");
  if (!text.ok()) return candidate;
  auto meta = ParseMeta(*text);
  candidate.target = meta["target"];
  double ms = 0;
  if (absl::SimpleAtod(meta["wall_ms"], &ms) && ms > 0)
    candidate.ms_per_byte = ms / static_cast<double>(std::max<int64_t>(1, info.bytes));
  return candidate;
}

void Evict(FileSystem& files, const StoreLayout& layout, const std::vector<EntryInfo>& entries,
           const PruneOptions& options, PruneReport& report) {
  std::vector<Candidate> candidates;
  for (const EntryInfo& info : entries) {
    if (info.mtime_ns > options.now_ns + kYoung && !options.dry_run)
      files.Touch(layout.FileOf(info.key)).IgnoreError();
    if (info.mtime_ns <= options.now_ns - kYoung)
      candidates.push_back(Judge(files, layout, info, options.now_ns));
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.idle_class, a.ms_per_byte, a.info.mtime_ns, a.info.key) <
           std::tuple(-b.idle_class, b.ms_per_byte, b.info.mtime_ns, b.info.key);
  });
  const int64_t wanted = options.max_bytes / 10 * 9;
  for (const Candidate& candidate : candidates) {
    if (report.bytes - report.evicted_bytes <= wanted) break;
    if (!options.dry_run) {
      const absl::Status done = files.Unlink(layout.FileOf(candidate.info.key));
      if (!done.ok() && !absl::IsNotFound(done)) continue;
    }
    report.evicted.push_back(candidate.info);
    report.evicted_bytes += candidate.info.allocated_bytes;
    ++report.evicted_by_target[candidate.target];
  }
}

}  // namespace

absl::StatusOr<std::vector<EntryInfo>> ListEntries(FileSystem& files, const StoreLayout& layout) {
  std::vector<EntryInfo> entries;
  const absl::StatusOr<std::vector<std::string>> shards = files.ListDir(layout.Entries());
  if (absl::IsNotFound(shards.status())) return entries;
  KILN_RETURN_IF_ERROR(shards.status());
  for (const std::string& shard : *shards) {
    for (const FoundFile& file : FilesOf(files, absl::StrCat(layout.Entries(), "/", shard))) {
      const std::optional<CacheKey> key = KeyOfFile(shard, file.name);
      if (!key.has_value() || !file.info.is_regular) continue;
      entries.push_back({*key, file.info.size, file.info.allocated_bytes, file.info.mtime_ns});
    }
  }
  return entries;
}

absl::StatusOr<PruneReport> Prune(FileSystem& files, const StoreLayout& layout,
                                  const PruneOptions& options) {
  PruneReport report;
  std::unique_ptr<FileLock> lock;
  if (!options.dry_run) {
    auto tried = files.TryLock(layout.UpkeepLock(), kPruneLock);
    report.busy = tried.ok() && *tried == nullptr;
    if (report.busy) return report;
    if (tried.ok()) lock = *std::move(tried);  // without locks, two prune at once: no harm done
  }
  report.temporaries = SweepTemporaries(files, layout, options);
  report.quarantined = TrimQuarantine(files, layout, options.now_ns, options.dry_run);
  KILN_ASSIGN_OR_RETURN(const std::vector<EntryInfo> entries, ListEntries(files, layout));
  report.entries = static_cast<int64_t>(entries.size());
  for (const EntryInfo& entry : entries) report.bytes += entry.allocated_bytes;
  for (const std::string& folder : {layout.Temporaries(), layout.Quarantine()}) {
    for (const FoundFile& file : FilesOf(files, folder)) report.bytes += file.info.allocated_bytes;
  }
  if (options.max_bytes > 0 && report.bytes > options.max_bytes)
    Evict(files, layout, entries, options, report);
  return report;
}

int64_t TrimQuarantine(FileSystem& files, const StoreLayout& layout, int64_t now_ns, bool dry_run) {
  std::vector<FoundFile> found = FilesOf(files, layout.Quarantine());
  // The latest stay.
  std::sort(found.begin(), found.end(), [](const FoundFile& a, const FoundFile& b) {
    return std::tuple(-a.info.mtime_ns, a.name) < std::tuple(-b.info.mtime_ns, b.name);
  });
  int64_t bytes = 0;
  int64_t removed = 0;
  size_t kept = 0;
  for (const FoundFile& file : found) {
    bytes += file.info.allocated_bytes;
    if (kept < kMaxQuarantined && bytes <= kMaxQuarantinedBytes &&
        now_ns - file.info.mtime_ns <= kMaxQuarantinedAge) {
      ++kept;
      continue;
    }
    bytes -= file.info.allocated_bytes;
    if (dry_run || files.Unlink(file.path).ok()) ++removed;
  }
  return removed;
}

}  // namespace kiln
