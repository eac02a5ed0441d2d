// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/task_queue.h"

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
