// SPDX-License-Identifier: Apache-2.0
// Cache: a kernel cache that an application opens for itself.
//
//   kiln::CacheSettings settings;
//   settings.directory = "/var/lib/app/kernels";
//   settings.on_event = [](const kiln::CacheEvent& event) { ... };
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<kiln::Cache> cache, kiln::Cache::Open(settings));
//   options.cache.open = cache;                        // of any number of CompileOptions
//   ...
//   kiln::StoreCounters now = cache->Snapshot();       // now.hits, now.misses, ...
//
// Several may be open in one process, also of one directory. Without `open`, a model opens the
// cache of its environment; with CacheOptions::enabled = false no cache code runs at all.
#ifndef KILN_PERSISTENT_CACHE_CACHE_H_
#define KILN_PERSISTENT_CACHE_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "persistent_cache/store.h"

namespace kiln {

struct CacheSettings {
  std::string directory;   // empty: KILN_CACHE_DIR, XDG_CACHE_HOME/kiln or HOME/.cache/kiln
  bool read_only = false;  // never written
  int64_t max_bytes = kDefaultCacheBytes;  // on disk; 0: no limit
  std::vector<std::string> packs;          // looked into first; see PackTrust
  PackTrust trust;
  std::string shared_directory;  // looked into last, never written
  // Called for each event, from any thread, without any lock held. What it throws is a warning. It
  // may use the cache.
  CacheEventFn on_event;
};

class Cache {
 public:
  // Makes the directory as needed. kPermissionDenied, kFailedPrecondition: others could write it;
  // the message names the component of the path. Does not look at KILN_CACHE_PACKS and the like.
  static absl::StatusOr<std::shared_ptr<Cache>> Open(CacheSettings settings);

  // Counts since Open, of this object alone. Thread-safe; touches no file.
  StoreCounters Snapshot() const { return store_->counters(); }
  const std::string& directory() const { return store_->directory(); }
  bool read_only() const { return store_->read_only(); }

  // For everything else: listing, pruning, statistics over all processes.
  const std::shared_ptr<Store>& store() const { return store_; }

 private:
  explicit Cache(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  const std::shared_ptr<Store> store_;
};

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_CACHE_H_
