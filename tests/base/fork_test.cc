// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/base/in_child.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;

// As in_child.h, within this time.
int InChild(const std::function<int()>& work) { return kiln::InChild(work, 20); }

// A thread that does `work` again and again.
class Busy {
 public:
  explicit Busy(const std::function<void()>& work)
      : thread_([this, work] {
          while (!stop_) work();
        }) {}
  ~Busy() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(ForkTest, CountsTheForksBetween) {
  const uint32_t here = ForkGeneration();
  EXPECT_EQ(InChild([&] {
              return ForkGeneration() == here + 1 &&
                             InChild([&] { return ForkGeneration() == here + 2 ? 0 : 1; }) == 0
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_EQ(ForkGeneration(), here);
}

// While a thread forks, others make and destroy what is told of forks.
TEST(ForkTest, AChildNeedsNothingOfWhatIsBeingMadeOrDestroyed) {
  const auto make = [] {
    Mutex mutex;
    CondVar changed;
    const MutexLock lock(mutex);
  };
  const Busy one(make), another(make), third(make);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(InChild([] { return 0; }), 0) << i;
}

// Threads hold one mutex, or one within the other, most of the time, and change what they guard in
// two steps.
TEST(ForkTest, AChildFindsMutexesFreeAndWhatTheyGuardWhole) {
  Mutex outer, inner;
  int64_t first = 0, second = 0;
  const auto change = [&] {
    const MutexLock lock(outer);
    ++first;
    const MutexLock within(inner);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    ++second;
  };
  const Busy one(change), two(change);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(InChild([&] {
                const MutexLock lock(inner);
                const MutexLock other(outer);
                return first == second ? 0 : 1;
              }),
              0);
  }
}

TEST(ForkTest, AMutexThatIsHeldForLongIsFreeInTheChildToo) {
  Mutex long_held;
  std::atomic<bool> held{false}, stop{false};
  std::thread holder([&] {
    const MutexLock lock(long_held);
    held = true;
    while (!stop) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  const auto start = steady_clock::now();
  EXPECT_EQ(InChild([&] {
              const MutexLock lock(long_held);
              return 0;
            }),
            0);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(15));
  EXPECT_FALSE(long_held.TryLock());
  stop = true;
  holder.join();
}

TEST(ForkTest, AChildWaitsForItsOwnThreadsAlone) {
  Mutex mutex;
  CondVar changed;
  bool go = false, end = false;
  std::thread ghost([&] {
    const MutexLock lock(mutex);
    while (!end) changed.Wait(mutex);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(InChild([&] {
              std::thread waker([&] {
                const MutexLock lock(mutex);
                go = true;
                changed.NotifyOne();
              });
              {
                const MutexLock lock(mutex);
                while (!go) changed.Wait(mutex);
              }
              waker.join();
              return 0;
            }),
            0);
  {
    const MutexLock lock(mutex);
    end = true;
  }
  changed.NotifyAll();
  ghost.join();
}

}  // namespace
}  // namespace kiln
