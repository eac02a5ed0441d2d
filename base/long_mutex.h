// SPDX-License-Identifier: Apache-2.0
// LongMutex: lets one thread at a time do what takes long, such as compiling.
//
//   LongMutex making_;  // around the whole
//   Mutex mutex_;       // around each look at, and change of, made_
//   std::list<Made> made_ ABSL_GUARDED_BY(mutex_);
//
// Unlike a Mutex it lets a host fork while it is held. It is free in the child, where its holder
// does not exist; so what is made under it is put in its place under a Mutex, in a moment.
#ifndef KILN_BASE_LONG_MUTEX_H_
#define KILN_BASE_LONG_MUTEX_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/fork.h"
#include "base/mutex.h"

namespace kiln {

class ABSL_LOCKABLE LongMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    const MutexLock lock(mutex_);
    while (holder_ == Self()) changed_.Wait(mutex_);
    holder_ = Self();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    const MutexLock lock(mutex_);
    holder_ = 0;
    changed_.NotifyOne();
  }

 private:
  static uint64_t Self() { return uint64_t{1} + ForkGeneration(); }

  Mutex mutex_;
  CondVar changed_;
  uint64_t holder_ ABSL_GUARDED_BY(mutex_) = 0;  // Self of the holder's process; 0: nobody
};

class ABSL_SCOPED_LOCKABLE LongMutexLock {
 public:
  explicit LongMutexLock(LongMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~LongMutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  LongMutexLock(const LongMutexLock&) = delete;
  LongMutexLock& operator=(const LongMutexLock&) = delete;

 private:
  LongMutex& mutex_;
};

}  // namespace kiln

#endif  // KILN_BASE_LONG_MUTEX_H_
