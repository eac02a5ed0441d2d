// SPDX-License-Identifier: Apache-2.0
// Keeping a cache directory small and tidy.
//
// Which entries go: those idle longest, in classes that double (under 1 h, under 2 h, under 4 h,
// ...); within a class those that are cheapest to build again per byte. Last use is the
// modification time of the file, which a hit renews at most once an hour. An entry younger than a
// minute never goes; one whose time lies ahead of the clock is given the present time.
#ifndef KILN_PERSISTENT_CACHE_PRUNE_H_
#define KILN_PERSISTENT_CACHE_PRUNE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "persistent_cache/key.h"
#include "persistent_cache/layout.h"

namespace kiln {

struct EntryInfo {
  CacheKey key{};
  int64_t bytes = 0;            // of the file
  int64_t allocated_bytes = 0;  // on disk
  int64_t mtime_ns = 0;         // of the last use, to about an hour
};

// All entries, by key, without opening them. Files that come and go meanwhile do not matter.
absl::StatusOr<std::vector<EntryInfo>> ListEntries(FileSystem& files, const StoreLayout& layout);

struct PruneOptions {
  int64_t max_bytes = 0;  // on disk, of all that the directory holds; 0: no limit
  int64_t now_ns = 0;
  bool dry_run = false;  // only say what would go
};

struct PruneReport {
  bool busy = false;               // another process prunes; nothing was done
  int64_t entries = 0, bytes = 0;  // before
  std::vector<EntryInfo> evicted;
  int64_t evicted_bytes = 0;
  std::map<std::string, uint64_t> evicted_by_target;  // "target" of their "meta"
  int64_t temporaries = 0;                            // left-overs removed
  int64_t quarantined = 0;                            // files removed from quarantine
};

// Removes left-overs of dead processes (older than an hour) and what quarantine holds too much of;
// then, if more than max_bytes remain, entries down to 90 % of it. Takes a lock without waiting.
// A file that somebody else removes first is no error.
absl::StatusOr<PruneReport> Prune(FileSystem& files, const StoreLayout& layout,
                                  const PruneOptions& options);

// Keeps quarantine to 64 files, 64 MiB and 7 days; returns how many went.
int64_t TrimQuarantine(FileSystem& files, const StoreLayout& layout, int64_t now_ns, bool dry_run);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_PRUNE_H_
