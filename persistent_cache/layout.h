// SPDX-License-Identifier: Apache-2.0
// What the files of a cache directory are called (docs/cache_format.md has the tree), and how one
// of them comes to be, all of it or nothing.
#ifndef KILN_PERSISTENT_CACHE_LAYOUT_H_
#define KILN_PERSISTENT_CACHE_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "persistent_cache/key.h"

namespace kiln {

struct StoreLayout {
  std::string root;  // <dir>/v1

  std::string Entries() const { return root + "/e"; }
  std::string Temporaries() const { return root + "/tmp"; }
  std::string Quarantine() const { return root + "/q"; }
  std::string Locks() const { return root + "/l"; }
  std::string Statistics() const { return root + "/s"; }
  std::string UpkeepLock() const { return root + "/upkeep.lock"; }
  std::string PruneStamp() const { return root + "/prune.stamp"; }

  std::string ShardOf(const CacheKey& key) const;
  std::string FileOf(const CacheKey& key) const;
  // The lock of a key is one byte of one of 256 files; two keys share it with chance 2^-62.
  std::string LockFileOf(const CacheKey& key) const;
  static int64_t LockOffsetOf(const CacheKey& key);
};

// Bytes of StoreLayout::UpkeepLock().
inline constexpr int64_t kPruneLock = 0;
inline constexpr int64_t kStatisticsLock = 1;

// The key whose entry is `name` in directory `shard` of e/; nothing for other files.
std::optional<CacheKey> KeyOfFile(absl::string_view shard, absl::string_view name);

// "<host>-<pid>-<ns>-<n>": a name that no other process and no other call gets.
std::string UniqueName();

// True if `name`, one of UniqueName(), is from another machine or from a process that is no more.
bool MakerIsGone(absl::string_view name);

int64_t SystemNowNs();

// Writes a file `to` so that readers see all of it or nothing, and, if `durable`, so that it is on
// the disk before it is visible. Leaves no temporary behind unless the process dies.
absl::Status WriteWhole(FileSystem& files, const StoreLayout& layout, const std::string& to,
                        absl::string_view bytes, bool durable);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_LAYOUT_H_
