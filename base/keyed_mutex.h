// SPDX-License-Identifier: Apache-2.0
// KeyedMutex: a LongMutex for each key. Whoever makes something that takes long, as a variant for
// some shapes, makes others wait that ask for the same, and nobody else.
//
//   KeyedMutex<std::string> making_;
//   ...
//   const KeyedMutexLock making(making_, key);
//   if (auto found = Find(key)) return found;  // another thread has made it meanwhile
//   auto made = Make(key);                     // no lock of ours is held
//   Add(key, made);                            // under a Mutex, in a moment
//
// As a LongMutex it lets a host fork while a key is held; in the child all keys are free.
// Thread-safe.
#ifndef KILN_BASE_KEYED_MUTEX_H_
#define KILN_BASE_KEYED_MUTEX_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/fork.h"
#include "base/mutex.h"

namespace kiln {

template <typename Key>
class KeyedMutex {
 public:
  void Lock(const Key& key) {
    const MutexLock lock(mutex_);
    uint64_t& holder = holders_[key].process;
    ++holders_[key].interested;
    while (holder == Self()) changed_.Wait(mutex_);
    holder = Self();
  }
  void Unlock(const Key& key) {
    const MutexLock lock(mutex_);
    const auto it = holders_.find(key);
    it->second.process = 0;
    if (--it->second.interested == 0) {
      holders_.erase(it);
    } else {
      changed_.NotifyAll();
    }
  }

 private:
  struct Holder {
    uint64_t process = 0;  // Self of the holder's process; 0: nobody
    int interested = 0;    // threads that hold the key or wait for it
  };
  static uint64_t Self() { return uint64_t{1} + ForkGeneration(); }

  Mutex mutex_;
  CondVar changed_;
  std::map<Key, Holder> holders_ ABSL_GUARDED_BY(mutex_);
};

template <typename Key>
class KeyedMutexLock {
 public:
  KeyedMutexLock(KeyedMutex<Key>& mutex, Key key) : mutex_(mutex), key_(std::move(key)) {
    mutex_.Lock(key_);
  }
  ~KeyedMutexLock() { mutex_.Unlock(key_); }
  KeyedMutexLock(const KeyedMutexLock&) = delete;
  KeyedMutexLock& operator=(const KeyedMutexLock&) = delete;

 private:
  KeyedMutex<Key>& mutex_;
  const Key key_;
};

}  // namespace kiln

#endif  // KILN_BASE_KEYED_MUTEX_H_
