// SPDX-License-Identifier: Apache-2.0
// Work that is done beside what the caller does: publishing to the cache, building kernels while a
// model runs already.
//
//   TaskQueue queue(1);
//   queue.Add([] { ... });   // tasks start in this order, `threads` of them at a time
//   queue.Wait();            // until all are done
//
// Threads start with the first task. What yields to the program that it serves says how: it begins
// when the program has had a head start, and its threads, with the processes that they start, are
// nice. The destructor waits for all tasks; after Drop only for those that have begun. What a task
// throws is logged. Where the system refuses a thread, Add and Wait do the tasks themselves.
//
// In a child of a fork the queue is empty: what was in it is its parent's. Thread-safe; a task may
// add tasks.
#ifndef KILN_BASE_TASK_QUEUE_H_
#define KILN_BASE_TASK_QUEUE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace kiln {

struct Yielding {
  int niceness = 0;  // 0 to 19
  // After the first task is added, unless somebody waits for the tasks.
  std::chrono::milliseconds head_start{0};
};

// A model's first answer needs all CPUs and new memory for about this long. Results for later
// processes are kept, and kernels built of a model that can run without them, after it.
inline constexpr std::chrono::milliseconds kHeadStart{300};
inline constexpr Yielding kKeeping{19}, kKeepingLater{19, kHeadStart},
    kBuildingLater{10, kHeadStart};

class TaskQueue {
 public:
  using Task = std::function<void()>;

  explicit TaskQueue(int threads, Yielding yielding = {});
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void Add(Task task) { AddAfter(std::chrono::milliseconds(0), std::move(task)); }
  // Begins no sooner than after `delay`. Wait does not wait for that; the destructor forgets it.
  void AddAfter(std::chrono::milliseconds delay, Task task);
  // Until all tasks are done that may begin.
  void Wait();
  // Forgets the tasks that have not begun, and takes no more.
  void Drop();

 private:
  using Clock = std::chrono::steady_clock;
  void StartAnewAfterFork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a thread if one more has something to do; whether there is one.
  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetDelayed(std::multimap<Clock::time_point, Task>& forgotten)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does the first task that is due; false: there is none.
  bool DoOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();

  const size_t most_threads_;
  const Yielding yielding_;
  Mutex mutex_;
  CondVar changed_;
  uint32_t generation_ ABSL_GUARDED_BY(mutex_);  // of the process whose threads these are
  std::multimap<Clock::time_point, Task> tasks_ ABSL_GUARDED_BY(mutex_);  // by when they are due
  std::multimap<Clock::time_point, Task> inherited_ ABSL_GUARDED_BY(mutex_);  // never done here
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurried_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln

#endif  // KILN_BASE_TASK_QUEUE_H_
