// SPDX-License-Identifier: Apache-2.0
// What a cache was good for: counts per target, kept without a file that many processes write.
//
// A process counts in memory and now and then writes what it counted since into a small new file of
// v1/s, never changed afterwards. Reading adds those files up. Compaction, one process at a time,
// puts them into `total` and removes them; `total` lists the files that it holds already, so that a
// crash in between counts nothing twice.
//
//   kiln-statistics 1
//   since 1700000000000000000
//   merged 6a1f33c0-811-1700000000000000000-0.count
//   x86-64-v3 hits 3 misses 1 builds 1 failures 0 evictions 0 damaged 0 saved_ms 412
//   use 9d61...7f60 12                         hits of one entry, by its key
//   end
//
// Counts are for people: a process that is killed loses those of its last minute, and a file that
// cannot be read or is cut short is left out.
#ifndef KILN_PERSISTENT_CACHE_STATISTICS_H_
#define KILN_PERSISTENT_CACHE_STATISTICS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "persistent_cache/layout.h"

namespace kiln {

struct CacheCounts {
  uint64_t hits = 0;       // lookups answered, those by a known failure too
  uint64_t misses = 0;     // lookups not answered
  uint64_t builds = 0;     // entries published
  uint64_t failures = 0;   // known failures published
  uint64_t evictions = 0;  // entries removed to keep under the limit
  uint64_t damaged = 0;    // entries that failed a check
  uint64_t saved_ms = 0;   // sum over hits of what building took

  CacheCounts& operator+=(const CacheCounts& other);
  friend bool operator==(const CacheCounts&, const CacheCounts&) = default;
};

struct CacheStatistics {
  int64_t since_ns = 0;                        // when counting began; 0: nothing was counted
  std::map<std::string, CacheCounts> targets;  // by "target" of the entries, "-" where unknown
  std::map<CacheKey, uint64_t> uses;           // hits by entry; of those that are still there
  std::set<std::string> merged;                // files that are in these counts; used by `total`

  CacheCounts Sum() const;
  void Merge(const CacheStatistics& other);
};

std::string FormatStatistics(const CacheStatistics& statistics);
// kDataLoss unless the text is whole.
absl::StatusOr<CacheStatistics> ParseStatistics(absl::string_view text);

// Adds a file with these counts.
absl::Status AddStatistics(FileSystem& files, const StoreLayout& layout,
                           const CacheStatistics& statistics);
// All files together.
CacheStatistics ReadStatistics(FileSystem& files, const StoreLayout& layout);
// Makes one file of all; does nothing while another process does.
void CompactStatistics(FileSystem& files, const StoreLayout& layout);
// Counts start again at `now_ns`. kUnavailable while another process compacts them.
absl::Status ZeroStatistics(FileSystem& files, const StoreLayout& layout, int64_t now_ns);

// A name as it stands in the file: other characters than letters, digits and "_.+-" become "_".
std::string StatisticsName(absl::string_view target);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_STATISTICS_H_
