// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <stdexcept>

#include "base/catch_exceptions.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

TEST(ThreadTest, HandlesNoSignalOfTheHost) {
  sigset_t seen;
  sigemptyset(&seen);
  {
    KILN_ASSERT_OK_AND_ASSIGN(const Thread thread,
                              Thread::Start([&] { pthread_sigmask(SIG_SETMASK, nullptr, &seen); }));
  }
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGPROF, SIGCHLD, SIGPIPE})
    EXPECT_EQ(sigismember(&seen, signal), 1) << signal;
  pthread_sigmask(SIG_SETMASK, nullptr, &seen);
  EXPECT_EQ(sigismember(&seen, SIGTERM), 0);
}

TEST(ThreadTest, WhatItThrowsDoesNotEndTheProcess) {
  KILN_ASSERT_OK_AND_ASSIGN(Thread thread,
                            Thread::Start([] { throw std::runtime_error("thrown"); }));
  thread.Join();
}

TEST(ThreadTest, ItsStackIsNotThatOfTheHostsLimits) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &before), 0);
  rlimit small = before;
  small.rlim_cur = 64 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &small), 0);
  std::atomic<int> sum{0};
  {
    KILN_ASSERT_OK_AND_ASSIGN(const Thread thread, Thread::Start([&] {
                                volatile char large[4 << 20];
                                for (size_t i = 0; i < sizeof large; i += 4096) large[i] = 1;
                                sum = large[4096];
                              }));
  }
  setrlimit(RLIMIT_STACK, &before);
  EXPECT_EQ(sum, 1);
}

TEST(ThreadTest, AChildOfAForkDoesNotWaitForIt) {
  std::atomic<bool> end{false};
  KILN_ASSERT_OK_AND_ASSIGN(Thread thread, Thread::Start([&] {
                              while (!end) usleep(1000);
                            }));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    thread.Join();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  end = true;
}

// pthread_join and waiting for a condition are points of cancellation, in destructors too.
TEST(ThreadTest, AThreadOfTheHostIsCancelledAfterACall) {
  struct Shared {
    std::atomic<bool> waits{false}, returned{false};
  } shared;
  pthread_t host;
  const auto call = [](void* data) -> void* {
    auto& state = *static_cast<Shared*>(data);
    const absl::Status done = CatchExceptions("call", [&] {
      state.waits = true;
      ForEachInParallel(
          4, [](size_t) { usleep(100'000); }, 4);
      usleep(50'000);
      return absl::OkStatus();
    });
    state.returned = done.ok();
    for (;;) pause();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&host, nullptr, call, &shared), 0);
  while (!shared.waits) usleep(1000);
  pthread_cancel(host);
  void* result = nullptr;
  pthread_join(host, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(shared.returned);
}

TEST(NoThreadsTest, StartIsRefusedWhileOneForbids) {
  const NoThreads allowed(false);
  EXPECT_TRUE(Thread::Start([] {}).ok());
  {
    const NoThreads forbidden(true);
    const NoThreads within(false);
    EXPECT_TRUE(NoThreads::Active());
    EXPECT_TRUE(absl::IsUnavailable(Thread::Start([] {}).status()));
    int calls = 0;
    ForEachInParallel(
        10, [&](size_t) { ++calls; }, 4);  // all on this thread
    EXPECT_EQ(calls, 10);
  }
  EXPECT_TRUE(Thread::Start([] {}).ok());
}

TEST(ForEachInParallelTest, CallsEachOnce) {
  std::atomic<int> calls[100] = {};
  ForEachInParallel(100, [&](size_t k) { ++calls[k]; });
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
}

TEST(ForEachInParallelTest, ThrowsWhatACallThrows) {
  EXPECT_THROW(ForEachInParallel(50,
                                 [&](size_t k) {
                                   if (k == 7) throw std::runtime_error("seven");
                                 }),
               std::runtime_error);
}

TEST(ForEachInParallelTest, NeedsNoThread) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    if (setuid(65534) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) _exit(0);
    std::atomic<int> calls{0};
    ForEachInParallel(10, [&](size_t) { ++calls; });
    const bool refused = !Thread::Start([] {}).ok();
    _exit(refused && calls == 10 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace kiln
