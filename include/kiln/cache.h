// SPDX-License-Identifier: Apache-2.0
// Cache: a kernel cache that an application opens for itself.
//
//   kiln::CacheSettings settings;
//   settings.directory = "/var/lib/app/kernels";
//   settings.on_event = [](const kiln::CacheEvent& event) { ... };
//   absl::StatusOr<std::shared_ptr<kiln::Cache>> cache = kiln::Cache::Open(settings);
//   options.cache.open = *cache;                       // of any number of CompileOptions
//   ...
//   kiln::CacheCounters now = (*cache)->Snapshot();    // now.hits, now.misses, ...
//
// Several may be open in one process, also of one directory. Without `open`, a model opens the
// cache of its environment; with CacheOptions::enabled = false no cache code runs at all. All
// functions are thread-safe.
#ifndef KILN_CACHE_H_
#define KILN_CACHE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kiln/status.h"

namespace kiln {

class Store;  // persistent_cache/store.h

inline constexpr int64_t kDefaultCacheBytes = int64_t{2} << 30;

using CacheKey = std::array<uint8_t, 32>;   // SHA-256 of what an entry is made of
using PublicKey = std::array<uint8_t, 32>;  // Ed25519

// Something that happened to one entry. Of what is no kernel only trouble is told, and evictions.
struct CacheEvent {
  enum class Kind : int {
    kHit,
    kMiss,
    kPublished,     // an entry, or a known failure
    kNotPublished,  // the disk is full, ...: what was built is used and not kept
    kDamaged,       // an entry failed a check and is not used
    kEvicted,
  };
  Kind kind = Kind::kHit;
  CacheKey key{};
  std::string target;    // "x86-64-v3"; "" where unknown
  uint64_t wall_ms = 0;  // kHit: what building took
};
using CacheEventFn = std::function<void(const CacheEvent&)>;

// Whose packs are read.
struct PackTrust {
  std::map<PublicKey, std::string> signers;  // name by key
  bool unsigned_too = false;                 // also packs that nobody known has signed
};

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

// Counts of one Cache since it was opened.
struct CacheCounters {
  uint64_t hits = 0, misses = 0;
  uint64_t published = 0;         // entries
  uint64_t failures = 0;          // known failures published
  uint64_t publish_failures = 0;  // not kept: disk full, ...
  uint64_t damaged = 0, evictions = 0;
  uint64_t saved_ms = 0;  // what building the hits took when they were built
};

class KILN_API Cache {
 public:
  // Makes the directory as needed. kPermissionDenied, kFailedPrecondition: others could write it;
  // the message names the component of the path. Does not look at KILN_CACHE_PACKS and the like.
  static absl::StatusOr<std::shared_ptr<Cache>> Open(CacheSettings settings);

  // Touches no file.
  CacheCounters Snapshot() const;
  const std::string& directory() const;
  bool read_only() const;

  // Inside Kiln: listing, pruning, statistics over all processes, as `kiln cache` shows them.
  const std::shared_ptr<Store>& store() const { return store_; }

 private:
  explicit Cache(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  const std::shared_ptr<Store> store_;
};

}  // namespace kiln

#endif  // KILN_CACHE_H_
