// SPDX-License-Identifier: Apache-2.0
#include "base/task_queue.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>

#include "base/catch_exceptions.h"
#include "base/fork.h"
#include "base/log.h"

namespace kiln {

TaskQueue::TaskQueue(int threads, Yielding yielding)
    : most_threads_(static_cast<size_t>(std::max(threads, 1))),
      yielding_(yielding),
      generation_(ForkGeneration()) {}

TaskQueue::~TaskQueue() {
  std::multimap<Clock::time_point, Task> forgotten;  // destroyed without the lock
  std::vector<Thread> threads;                       // joined without the lock
  const MutexLock lock(mutex_);
  StartAnewAfterFork();
  ForgetDelayed(forgotten);
  ending_ = true;
  changed_.NotifyAll();
  if (threads_.empty()) DoAll();
  threads.swap(threads_);
}

// Threads, and what they were to do, are the parent's.
void TaskQueue::StartAnewAfterFork() {
  if (generation_ == ForkGeneration()) return;
  inherited_.swap(tasks_);
  tasks_.clear();
  generation_ = ForkGeneration();
  running_ = 0;
  threads_.clear();
}

void TaskQueue::ForgetDelayed(std::multimap<Clock::time_point, Task>& forgotten) {
  const Clock::time_point now = Clock::now();
  while (!tasks_.empty() && std::prev(tasks_.end())->first > now)
    forgotten.insert(tasks_.extract(std::prev(tasks_.end())));
}

void TaskQueue::DoAll() {
  while (DoOne()) {
  }
}

bool TaskQueue::StartThread() {
  if (threads_.size() >= std::min(running_ + tasks_.size(), most_threads_))
    return !threads_.empty();
  threads_.reserve(most_threads_);
  absl::StatusOr<Thread> thread = Thread::Start([this] { Work(); });
  if (thread.ok()) threads_.push_back(*std::move(thread));
  return !threads_.empty();
}

void TaskQueue::AddAfter(std::chrono::milliseconds delay, Task task) {
  const MutexLock lock(mutex_);
  StartAnewAfterFork();
  if (dropped_ || (ending_ && delay.count() > 0)) return;
  tasks_.emplace(Clock::now() + delay, std::move(task));
  changed_.NotifyAll();
  if (!StartThread()) DoAll();
}

void TaskQueue::Wait() {
  const MutexLock lock(mutex_);
  StartAnewAfterFork();
  hurried_ = true;
  changed_.NotifyAll();
  if (!StartThread()) DoAll();
  while (IsDue() || running_ > 0) changed_.Wait(mutex_);
}

void TaskQueue::Drop() {
  std::multimap<Clock::time_point, Task> dropped;  // destroyed without the lock
  const MutexLock lock(mutex_);
  StartAnewAfterFork();
  dropped_ = true;
  dropped.swap(tasks_);
  changed_.NotifyAll();
}

bool TaskQueue::IsDue() const { return !tasks_.empty() && tasks_.begin()->first <= Clock::now(); }

bool TaskQueue::DoOne() {
  if (!IsDue()) return false;
  Task task = std::move(tasks_.begin()->second);
  tasks_.erase(tasks_.begin());
  ++running_;
  mutex_.Unlock();
  const absl::Status done = CatchExceptions("task", [&] {
    task();
    return absl::OkStatus();
  });
  if (!done.ok()) LogWarning(done.message());
  task = nullptr;  // what it holds goes before Wait returns
  mutex_.Lock();
  --running_;
  changed_.NotifyAll();
  return true;
}

void TaskQueue::Work() {
  // On Linux this is the thread's.
  if (yielding_.niceness != 0) setpriority(PRIO_PROCESS, 0, yielding_.niceness);
  const Clock::time_point begin = Clock::now() + yielding_.head_start;
  const MutexLock lock(mutex_);
  while (Clock::now() < begin && !hurried_ && !ending_ && !dropped_)
    changed_.WaitUntil(mutex_, begin);
  while (true) {
    if (DoOne()) continue;
    if (tasks_.empty() && ending_) break;
    if (tasks_.empty()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitUntil(mutex_, tasks_.begin()->first);
    }
  }
}

}  // namespace kiln
