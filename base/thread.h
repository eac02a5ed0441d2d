// SPDX-License-Identifier: Apache-2.0
// A thread of ours in somebody's process.
//
//   absl::StatusOr<Thread> thread = Thread::Start([] { ... });   // may be refused
//   thread->Join();                                              // or its destructor
//
// It handles no signal (all are blocked), has a stack of its own size whatever the host's limits,
// and what its function throws is logged. In a child of a fork it has ended.
#ifndef KILN_BASE_THREAD_H_
#define KILN_BASE_THREAD_H_

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"

namespace kiln {

class Thread {
 public:
  Thread() = default;  // none
  // kUnavailable: the system refuses a thread; kResourceExhausted: no memory.
  static absl::StatusOr<Thread> Start(std::function<void()> function);
  Thread(Thread&& other) noexcept
      : id_(other.id_),
        generation_(other.generation_),
        running_(std::exchange(other.running_, false)) {}
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { Join(); }

  // Waits for its end.
  void Join();

 private:
  pthread_t id_{};
  uint32_t generation_ = 0;  // of the process that has it
  bool running_ = false;     // started and not joined
};

// While it lives, and `forbidden`, no thread of ours is started by the calling thread: Start
// answers as if the system refused one, and callers do the work themselves.
//
//   const NoThreads scope(options.threads == 1);
class NoThreads {
 public:
  explicit NoThreads(bool forbidden);
  ~NoThreads();
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  // Whether one lives that forbids.
  static bool Active();

 private:
  const bool forbidden_;
};

// Calls fn(0) ... fn(n - 1), on this thread and others, at most `threads` (0: Processors()) and as
// far as the system grants them, and returns when all calls have. What they throw is thrown here,
// the first of it.
void ForEachInParallel(size_t n, const std::function<void(size_t)>& fn, int threads = 0);

}  // namespace kiln

#endif  // KILN_BASE_THREAD_H_
