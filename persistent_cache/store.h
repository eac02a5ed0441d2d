// SPDX-License-Identifier: Apache-2.0
// The store: entries by key in a directory, shared by any number of processes without a lock.
//
//   <dir>/CACHEDIR.TAG
//   <dir>/v1/e/<2 hex>/<62 hex>.entry     one file, one entry (entry.h)
//   <dir>/v1/tmp/<pid>-<time>-<n>         being written; renamed into place when complete and
//   synced <dir>/v1/q/<key>.<n>                  entries that failed a check, set aside
//
// Promises: Lookup returns what was published under this very preimage or nothing. A damaged entry
// is a miss, is set aside and warned of once. An error of the disk never changes a result: Publish
// may fail, and the caller runs on with the bytes it has. All access goes through FileSystem.
// Thread-safe.
#ifndef KILN_PERSISTENT_CACHE_STORE_H_
#define KILN_PERSISTENT_CACHE_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/base/file_system.h"
#include "kiln/persistent_cache/entry.h"
#include "kiln/persistent_cache/key.h"

namespace kiln {

struct StoreOptions {
  std::string directory;   // as given; resolved and checked by Open
  bool read_only = false;  // neither publish, touch nor set aside
};

// Counts of this process since Open.
struct StoreCounters {
  uint64_t hits = 0, misses = 0, published = 0, publish_failures = 0, damaged = 0;
};

struct EntryInfo {
  CacheKey key{};
  int64_t bytes = 0;            // of the file
  int64_t allocated_bytes = 0;  // on disk
  int64_t mtime_ns = 0;         // of the last write
};

class Store {
 public:
  // Makes the directory as needed. Fails as PrepareCacheDirectory does; never scans.
  static absl::StatusOr<std::unique_ptr<Store>> Open(FileSystem& files, StoreOptions options);

  // The entry published under `preimage`, if it is there and whole.
  std::optional<Entry> Lookup(const Preimage& preimage);

  // Makes `entry` visible to everybody, all of it or nothing, and on the disk before it is visible.
  // Its "preimage" section and key must be those of each other. An entry that is already there is
  // replaced by equal content.
  absl::Status Publish(const Entry& entry);

  // By key alone, for tools: kNotFound, or kDataLoss for a damaged one (which is left where it is).
  absl::StatusOr<Entry> Read(const CacheKey& key);

  // All entries, by key. Files that come and go meanwhile do not matter.
  absl::StatusOr<std::vector<EntryInfo>> List();

  // Removes one entry, or all entries, temporaries and quarantined files of the schema; the latter
  // returns how many entries went.
  absl::Status Remove(const CacheKey& key);
  absl::StatusOr<int64_t> Clear();

  StoreCounters counters() const;
  const std::string& directory() const { return options_.directory; }

 private:
  Store(FileSystem& files, StoreOptions options);
  std::string PathOf(const CacheKey& key) const;
  absl::Status WriteTemporary(const std::string& path, const std::string& bytes);
  void SetAside(const CacheKey& key, const absl::Status& why);

  FileSystem& files_;
  StoreOptions options_;
  std::string root_;  // <dir>/v1
  std::atomic<uint64_t> hits_{0}, misses_{0}, published_{0}, publish_failures_{0}, damaged_{0},
      temporaries_{0};
  std::atomic<bool> warned_{false};
};

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_STORE_H_
