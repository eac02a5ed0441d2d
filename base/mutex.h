// SPDX-License-Identifier: Apache-2.0
// Mutex, MutexLock and CondVar: those of the standard library, with annotations that clang checks
// (-Wthread-safety), and safe where the host forks.
//
//   Mutex mutex_;
//   CondVar changed_;
//   std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
//   ...
//   const MutexLock lock(mutex_);
//   while (tasks_.empty()) changed_.Wait(mutex_);
//
// A fork waits until no thread holds a Mutex (base/fork.h), so the child finds what it guards as a
// whole, and free. Hence nobody compiles, reads files or runs kernels under one. In the child,
// nobody waits for a CondVar of its parent.
#ifndef KILN_BASE_MUTEX_H_
#define KILN_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

#include "absl/base/thread_annotations.h"
#include "base/fork.h"
#include "base/no_cancellation.h"

namespace kiln {

// kForget: what it guards is never used by a child of a fork, so that a fork need not wait.
enum class AtFork : bool { kForget, kWait };

class ABSL_LOCKABLE Mutex final : private ForkListener {
 public:
  explicit Mutex(AtFork at_fork = AtFork::kWait) {
    if (at_fork == AtFork::kWait) Listen();
  }
  ~Mutex() { Unlisten(); }

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    ForkGate::Enter();
    mutex_.lock();
  }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    ForkGate::Enter();
    if (mutex_.try_lock()) return true;
    ForkGate::Leave();
    return false;
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    mutex_.unlock();
    ForkGate::Leave();
  }

 private:
  friend class CondVar;
  bool TryPrepare() override { return mutex_.try_lock(); }
  void Undo() override { mutex_.unlock(); }
  void InChild(bool prepared) override {
    if (prepared) mutex_.unlock();
    if (!prepared) new (&mutex_) std::mutex;  // its owner does not exist here
  }

  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar final : private ForkListener {
 public:
  explicit CondVar(AtFork at_fork = AtFork::kWait) {
    if (at_fork == AtFork::kWait) Listen();
  }
  ~CondVar() { Unlisten(); }

  // May return without cause: callers look at their condition again.
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const NoCancellation guard;  // std::condition_variable is not to be unwound
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // Waits no longer than until then.
  void WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const NoCancellation guard;  // std::condition_variable is not to be unwound
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait_until(lock, end);
    lock.release();
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  void InChild(bool) override { new (&changed_) std::condition_variable; }

  std::condition_variable changed_;
};

}  // namespace kiln

#endif  // KILN_BASE_MUTEX_H_
