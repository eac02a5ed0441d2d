// SPDX-License-Identifier: Apache-2.0
#include "base/long_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/thread.h"

namespace kiln {
namespace {

TEST(LongMutex, OneThreadAtATime) {
  LongMutex mutex;
  int within = 0, most = 0, times = 0;
  ForEachInParallel(
      2000,
      [&](size_t) {
        const LongMutexLock lock(mutex);
        most = std::max(most, ++within);
        ++times;
        --within;
      },
      4);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(times, 2000);
}

TEST(LongMutex, AForkWaitsForNobodyAndTheChildHasItFree) {
  LongMutex mutex;
  std::atomic<bool> held{false}, done{false};
  absl::StatusOr<Thread> holder = Thread::Start([&] {
    const LongMutexLock lock(mutex);
    held = true;
    while (!done) usleep(1000);
  });
  ASSERT_TRUE(holder.ok());
  while (!held) usleep(1000);
  const auto begun = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    mutex.Lock();
    mutex.Unlock();
    _exit(0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  done = true;
}

}  // namespace
}  // namespace kiln
