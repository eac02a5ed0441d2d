// SPDX-License-Identifier: Apache-2.0
// The store: entries by key, in a directory shared by any number of processes.
//
//   const Preimage preimage = Preimage().Add("kernel", text).Add("target", "x86-64-v3");
//   std::optional<Entry> entry = store->Lookup(preimage);
//   if (!entry) {
//     const KeyLock lock = store->LockKey(preimage.Key(), absl::Minutes(1));
//     entry = store->LookupAgain(preimage);            // another process may have built it by now
//     if (!entry) { entry = Build(...);  store->Publish(*entry).IgnoreError(); }
//   }
//
// Looked through in this order: packs (pack.h), the user's directory, a shared directory that is
// never written. Promises:
//   - Lookup gives what was published under this very preimage, or nothing. A damaged entry is a
//     miss, is moved to quarantine and warned of once.
//   - An error of the disk never changes a result: Publish may fail, and the caller runs on with
//     the bytes it has.
//   - Locks only save work. Whoever does not get one builds for himself.
//   - Nothing is scanned before the first publication, and then at most once a minute, on a thread
//     of its own: prune.h.
// All access goes through FileSystem. docs/cache_format.md has files and bytes. Thread-safe.
#ifndef KILN_PERSISTENT_CACHE_STORE_H_
#define KILN_PERSISTENT_CACHE_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "base/long_mutex.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "kiln/cache.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/layout.h"
#include "persistent_cache/pack.h"
#include "persistent_cache/prune.h"
#include "persistent_cache/statistics.h"

namespace kiln {

struct StoreOptions {
  std::string directory;                   // as given; resolved and checked by Open
  bool read_only = false;                  // neither make, publish, touch, count nor set aside
  int64_t max_bytes = kDefaultCacheBytes;  // on disk; 0: no limit
  std::vector<std::string> packs = {};     // looked into first; those not trusted are warned of
  PackTrust trust = {};
  std::string shared_directory = "";          // looked into last; empty: none
  std::function<int64_t()> now_ns = nullptr;  // null: the system's clock
  CacheEventFn on_event = nullptr;            // from any thread, with no lock held; may throw
};

// The section "blob" of an entry, at an address that is a multiple of 64, for as long as `owner`
// lives.
struct MappedBlob {
  absl::string_view bytes;
  std::shared_ptr<const void> owner;
  FileIdentity file;  // of the entry
};

// The right to build one key, until the object or the process goes.
class KeyLock {
 public:
  KeyLock() = default;
  explicit KeyLock(std::unique_ptr<FileLock> lock) : lock_(std::move(lock)) {}
  // False: others may build the same key (no time left, no locks on this disk, read-only store).
  bool held() const { return lock_ != nullptr; }

 private:
  std::unique_ptr<FileLock> lock_;
};

class Store {
 public:
  // Makes the directory as needed; one that is absent and read-only is empty. Fails as
  // PrepareCacheDirectory does; never scans.
  static absl::StatusOr<std::unique_ptr<Store>> Open(FileSystem& files, StoreOptions options);
  // Writes what was counted, after what still prunes.
  ~Store();

  // The entry published under `preimage`, if it is there and whole. It may be a known failure, with
  // a section "failure" (PublishFailure), until that expires.
  std::optional<Entry> Lookup(const Preimage& preimage);
  // The same for who missed before and looks again: counts one hit instead of that miss, or
  // nothing.
  std::optional<Entry> LookupAgain(const Preimage& preimage);

  // Waits until no other process or thread holds the lock of `key`, for `timeout` at most.
  KeyLock LockKey(const CacheKey& key, absl::Duration timeout);

  // Makes `entry` visible to everybody, all of it or nothing, and on the disk before it is visible.
  // Its "preimage" section and key must be those of each other. An entry that is already there is
  // replaced by equal content. kResourceExhausted also when the disk is nearly full.
  absl::Status Publish(const Entry& entry);

  // Remembers for a day that building `preimage` fails each time, and how. Not for time-outs, full
  // disks and other things that pass. `meta` as in entry.h; "expires" is added.
  absl::Status PublishFailure(const Preimage& preimage, absl::string_view error,
                              std::map<std::string, std::string> meta);

  // Large data that can be made again at little cost: read where it lies instead of being copied to
  // memory, and published without waiting for the disk (one that loses power may lose it). Neither
  // is counted.
  absl::Status PublishBlob(const Preimage& preimage, absl::string_view bytes,
                           std::map<std::string, std::string> meta);
  // As Lookup, of the user's directory and the shared one. The checksum is not computed where
  // `was_checked` says that this file was found whole before.
  std::optional<MappedBlob> FindBlob(const Preimage& preimage,
                                     const std::function<bool(const FileIdentity&)>& was_checked);

  // Whether the user's directory has a file for `key`, whole or not.
  bool Holds(const CacheKey& key);

  // By key alone, for tools: kNotFound, or kDataLoss for a damaged one (which is left where it is).
  absl::StatusOr<Entry> Read(const CacheKey& key);
  // One section without checking the entry; see PeekSection.
  absl::StatusOr<std::string> Peek(const CacheKey& key, absl::string_view tag);

  // All entries of the user's directory, by key; none where there is none.
  absl::StatusOr<std::vector<EntryInfo>> List();

  // Removes one entry, or all entries, temporaries and quarantined files of the schema; the latter
  // returns how many entries went.
  absl::Status Remove(const CacheKey& key);
  absl::StatusOr<int64_t> Clear();

  // See prune.h; `max_bytes` stands for that of the options.
  absl::StatusOr<PruneReport> Prune(int64_t max_bytes, bool dry_run);
  // Until what a publication has begun of it is done.
  void WaitUntilPruned();

  // Of all processes, this one's latest included.
  CacheStatistics Statistics();
  absl::Status ZeroStatistics();

  CacheCounters counters() const;
  const std::string& directory() const { return options_.directory; }
  const StoreLayout& layout() const { return layout_; }
  bool read_only() const { return options_.read_only; }
  // Whether what was found out about a file of the directory may be remembered (Settled): false on
  // disks that other machines write as well.
  bool local() const { return local_; }
  int64_t max_bytes() const { return options_.max_bytes; }

 private:
  Store(FileSystem& files, StoreOptions options);
  int64_t Now() const { return options_.now_ns ? options_.now_ns() : SystemNowNs(); }
  absl::Status Prepare();
  void OpenLayers();
  std::optional<Entry> Find(const Preimage& preimage, bool again);
  std::optional<Entry> FindIn(const StoreLayout& layout, bool own, const Preimage& preimage,
                              const CacheKey& key);
  std::optional<Entry> FindInPacks(const Preimage& preimage, const CacheKey& key);
  // Whether it is a known failure that does not hold any more.
  bool IsExpired(const Entry& entry) const;
  void KeepFresh(const std::string& path, const FileInfo& info);
  void SetAside(const std::string& path, const CacheKey& key, const FileInfo* info,
                const absl::Status& why);
  void Tell(const CacheKey& key, const absl::Status& why);
  absl::Status WriteEntry(const CacheKey& key, absl::string_view bytes, bool durable);
  absl::StatusOr<MappedBlob> ReadBlob(const StoreLayout& layout, const Preimage& preimage,
                                      const CacheKey& key,
                                      const std::function<bool(const FileIdentity&)>& was_checked);
  void PruneNowAndThen();
  void Count(absl::string_view target, const CacheCounts& counts);
  void CountUse(const CacheKey& key);
  void FlushStatistics();
  void Emit(CacheEvent::Kind kind, const CacheKey& key, std::string target, uint64_t ms = 0);

  FileSystem& files_;
  StoreOptions options_;
  std::vector<std::unique_ptr<Pack>> packs_;
  StoreLayout layout_;  // of the user's directory; root is empty where there is none
  StoreLayout shared_;  // root is empty where there is none
  pid_t owner_;         // a forked child has a copy of the counts that are not its own
  bool local_ = false;
  std::atomic<bool> locks_{true};
  std::atomic<bool> warned_{false};
  std::atomic<uint64_t> publish_failures_{0};
  std::atomic<int64_t> prune_after_ns_{0};
  std::atomic<bool> is_pruning_{false};
  LongMutex pruning_mutex_;
  Thread pruning_ ABSL_GUARDED_BY(pruning_mutex_);

  mutable Mutex mutex_;
  CacheStatistics pending_ ABSL_GUARDED_BY(mutex_);  // not yet written
  CacheCounts total_ ABSL_GUARDED_BY(mutex_);        // since Open
};

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_STORE_H_
