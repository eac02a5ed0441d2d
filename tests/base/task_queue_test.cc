// SPDX-License-Identifier: Apache-2.0
#include "base/task_queue.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>

#include "gtest/gtest.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLong{60'000};

TEST(TaskQueue, TasksThatYieldBeginAfterTheHeadStart) {
  std::atomic<bool> done{false};
  const Clock::time_point added = Clock::now();
  Clock::time_point began;
  TaskQueue queue(1, {.head_start = std::chrono::milliseconds(50)});
  queue.Add([&] {
    began = Clock::now();
    done = true;
  });
  while (!done) std::this_thread::yield();
  EXPECT_GE(began - added, std::chrono::milliseconds(50));
}

TEST(TaskQueue, WhoWaitsForTasksEndsTheirHeadStart) {
  const Clock::time_point added = Clock::now();
  bool done = false;
  TaskQueue queue(1, {.head_start = kLong});
  queue.Add([&] { done = true; });
  queue.Wait();
  EXPECT_TRUE(done);
  EXPECT_LT(Clock::now() - added, kLong);
}

TEST(TaskQueue, TheDestructorWaitsForTasksWithoutTheirHeadStart) {
  const Clock::time_point added = Clock::now();
  bool done = false;
  {
    TaskQueue queue(2, {.head_start = kLong});
    queue.Add([&] { done = true; });
  }
  EXPECT_TRUE(done);
  EXPECT_LT(Clock::now() - added, kLong);
}

TEST(TaskQueue, NobodyWaitsForADelay) {
  std::atomic<int> done{0};
  const auto begun = std::chrono::steady_clock::now();
  {
    TaskQueue queue(1);
    // A task that fails is tried again later.
    queue.Add([&] { queue.AddAfter(std::chrono::seconds(60), [&] { ++done; }); });
    queue.AddAfter(std::chrono::milliseconds(50), [&] { done += 10; });
    queue.Wait();
    while (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(done, 10) << "it stays, though somebody waited";
    queue.Add([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      queue.AddAfter(std::chrono::seconds(60), [&] { ++done; });  // while the queue ends
    });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(done, 10);
}

TEST(TaskQueue, DroppedTasksNeverBegin) {
  bool done = false;
  {
    TaskQueue queue(1, {.head_start = kLong});
    queue.Add([&] { done = true; });
    queue.Drop();
  }
  EXPECT_FALSE(done);
}

TEST(TaskQueue, NicenessIsThatOfItsThreadsOnly) {
  const int mine = getpriority(PRIO_PROCESS, 0);
  int theirs = -1;
  TaskQueue queue(1, {.niceness = 19});
  queue.Add([&] { theirs = getpriority(PRIO_PROCESS, 0); });
  queue.Wait();
  EXPECT_EQ(theirs, 19);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), mine);
}

}  // namespace
}  // namespace kiln
