// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/task_queue.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace kiln {

TaskQueue::~TaskQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskQueue::Add(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (dropped_) return;
    tasks_.push_back(std::move(task));
    const size_t busy = static_cast<size_t>(running_) + tasks_.size();
    if (threads_.size() < std::min(busy, static_cast<size_t>(threads_wanted_)))
      threads_.emplace_back([this] { Work(); });
  }
  changed_.notify_all();
}

void TaskQueue::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  hurried_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return tasks_.empty() && running_ == 0; });
}

void TaskQueue::Drop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    dropped_ = true;
    dropped.swap(tasks_);
  }
  changed_.notify_all();
}

void TaskQueue::Work() {
  // On Linux this is the thread's.
  if (yielding_.niceness != 0) setpriority(PRIO_PROCESS, 0, yielding_.niceness);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, yielding_.head_start, [this] { return hurried_ || ending_ || dropped_; });
  while (true) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes before Wait returns
    lock.lock();
    --running_;
    changed_.notify_all();
  }
}

void ForEachInParallel(size_t n, const std::function<void(size_t)>& fn) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t k = next++; k < n; k = next++) fn(k);
  };
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (size_t t = 1; t < std::min(most, n); ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace kiln
