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
// nice. The destructor waits for all tasks; after Drop only for those that have begun. Thread-safe;
// a task may add tasks.
#ifndef KILN_COMPILER_TASK_QUEUE_H_
#define KILN_COMPILER_TASK_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

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
  explicit TaskQueue(int threads, Yielding yielding = {})
      : threads_wanted_(threads), yielding_(yielding) {}
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void Add(std::function<void()> task);
  void Wait();
  // Forgets the tasks that have not begun, and takes no more.
  void Drop();

 private:
  void Work();

  const int threads_wanted_;
  const Yielding yielding_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  int running_ = 0;
  bool ending_ = false, dropped_ = false, hurried_ = false;
  std::vector<std::thread> threads_;
};

// Calls fn(0) ... fn(n - 1), several at a time, and returns when all calls have.
void ForEachInParallel(size_t n, const std::function<void(size_t)>& fn);

}  // namespace kiln

#endif  // KILN_COMPILER_TASK_QUEUE_H_
