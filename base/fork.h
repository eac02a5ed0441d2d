// SPDX-License-Identifier: Apache-2.0
// What Kiln does when its host forks.
//
// A child of fork() has one thread and a copy of memory as all other threads of its parent left it.
// So that the copy is consistent, the fork waits until none of them holds a mutex of ours
// (base/mutex.h). What belongs to the parent's threads and processes (threads, helper processes,
// file locks) compares ForkGeneration(), or is a ForkListener, and starts anew in the child.
//
//   class FileLock final : ForkListener {
//     explicit FileLock(int fd) : fd_(fd) { Listen(); }
//     ~FileLock() { Unlock(); Unlisten(); }
//     void InChild(bool) override { close(fd_); fd_ = -1; }  // in the child: it is the parent's
//   };
//
// posix_spawn does not count as a fork: its child runs no code of ours.
#ifndef KILN_BASE_FORK_H_
#define KILN_BASE_FORK_H_

#include <cstdint>

namespace kiln {

// A thread has this before its first mutex of ours, and gives it back after its last: while another
// thread forks, Enter waits, and who holds a mutex goes on until it holds none.
class ForkGate {
 public:
  static void Enter();
  static void Leave();
};

// How many forks lie between the process that first used Kiln and this one. Thread-safe.
uint32_t ForkGeneration();

// An object that is told of forks, from Listen to Unlisten, which the class that implements the
// functions calls last in its constructor and in its destructor: while others fork, neither may be
// under way. A child of another thread has no stack of this one: a listener lies on no stack. The
// functions are called on the thread that forks and must not allocate, wait, or make or destroy
// listeners.
class ForkListener {
 public:
  ForkListener(const ForkListener&) = delete;
  ForkListener& operator=(const ForkListener&) = delete;

 protected:
  ForkListener() = default;
  ~ForkListener() = default;
  void Listen();
  // Nothing unless it listens. Waits while a thread forks.
  void Unlisten();

 private:
  friend struct ForkListeners;
  // Before a fork; false: not ready. The fork is then tried again, after a while without.
  virtual bool TryPrepare() { return true; }
  // Takes TryPrepare back: in the parent, and where the fork is tried again.
  virtual void Undo() {}
  // `prepared`: TryPrepare was true.
  virtual void InChild(bool prepared) = 0;

  bool listens_ = false;
  bool prepared_ = false;
  ForkListener* next_ = nullptr;
  ForkListener* previous_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_BASE_FORK_H_
