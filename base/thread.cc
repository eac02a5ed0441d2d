// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/no_cancellation.h"
#include "base/processors.h"

namespace kiln {
namespace {

// As Linux's default; a host may have set another limit.
constexpr size_t kStackBytes = size_t{8} << 20;

thread_local int no_threads = 0;  // NoThreads of this thread that forbid

void* Run(void* function) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(function));
  const absl::Status done = CatchExceptions("thread", [&] {
    (*body)();
    return absl::OkStatus();
  });
  if (!done.ok()) LogWarning(done.message());
  return nullptr;
}

}  // namespace

NoThreads::NoThreads(bool forbidden) : forbidden_(forbidden) { no_threads += forbidden ? 1 : 0; }
NoThreads::~NoThreads() { no_threads -= forbidden_ ? 1 : 0; }
bool NoThreads::Active() { return no_threads > 0; }

absl::StatusOr<Thread> Thread::Start(std::function<void()> function) {
  if (NoThreads::Active()) return absl::UnavailableError("thread: none may be started here");
  return CatchExceptions("thread", [&]() -> absl::StatusOr<Thread> {
    auto body = std::make_unique<std::function<void()>>(std::move(function));
    Thread thread;
    thread.generation_ = ForkGeneration();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const absl::Cleanup destroy = [&] { pthread_attr_destroy(&attributes); };
    pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t all;
    sigfillset(&all);
    pthread_attr_setsigmask_np(&attributes, &all);
    const int error = pthread_create(&thread.id_, &attributes, &Run, body.get());
    if (error != 0) {
      return absl::UnavailableError(
          absl::StrCat("thread: the system refuses one: ", strerror(error)));
    }
    (void)body.release();  // the thread owns it now
    thread.running_ = true;
    return thread;
  });
}

Thread& Thread::operator=(Thread&& other) noexcept {
  Join();
  id_ = other.id_;
  generation_ = other.generation_;
  running_ = std::exchange(other.running_, false);
  return *this;
}

void Thread::Join() {
  if (!std::exchange(running_, false) || generation_ != ForkGeneration()) return;
  const NoCancellation guard;
  pthread_join(id_, nullptr);
}

void ForEachInParallel(size_t n, const std::function<void(size_t)>& fn, int threads) {
  std::atomic<size_t> next{0};
  std::atomic<bool> thrown{false};
  std::exception_ptr first;  // written by the one that sets `thrown`
  const auto work = [&] {
    try {
      for (size_t k = next++; k < n; k = next++) fn(k);
    } catch (const abi::__forced_unwind&) {
      throw;
    } catch (...) {
      if (!thrown.exchange(true)) first = std::current_exception();
      next = n;
    }
  };
  {
    std::vector<Thread> others;
    // Processors reads files: not for what one thread does.
    const bool alone = n <= 1 || NoThreads::Active();
    const size_t most =
        alone ? 1 : std::min(n, static_cast<size_t>(threads > 0 ? threads : Processors()));
    others.reserve(most);
    while (others.size() + 1 < most) {
      absl::StatusOr<Thread> thread = Thread::Start(work);
      if (!thread.ok()) break;
      others.push_back(*std::move(thread));
    }
    work();
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace kiln
