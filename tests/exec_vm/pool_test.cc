// SPDX-License-Identifier: Apache-2.0
#include "exec/support/pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "exec/support/launch.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using Range = std::pair<int64_t, int64_t>;

std::vector<Range> RangesOf(Pool& pool, int64_t n) {
  std::vector<Range> ranges(static_cast<size_t>(pool.threads()), Range{0, 0});
  EXPECT_EQ(pool.ParallelFor(n,
                             [&](int64_t begin, int64_t end) {
                               ranges[static_cast<size_t>(Pool::Member())] = {begin, end};
                               return 0;
                             }),
            0);
  return ranges;
}

TEST(PoolTest, PartitionIsFixed) {
  Pool pool(3);
  const std::vector<Range> expected = {{0, 3}, {3, 6}, {6, 10}};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(RangesOf(pool, 10), expected);
  EXPECT_EQ(RangesOf(pool, 2), (std::vector<Range>{{0, 1}, {1, 2}, {0, 0}}));
  EXPECT_EQ(RangesOf(pool, 0), (std::vector<Range>{{0, 0}, {0, 0}, {0, 0}}));
}

TEST(PoolTest, OneThreadRunsInline) {
  Pool pool(1);
  const std::thread::id self = std::this_thread::get_id();
  pool.ParallelFor(100, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_TRUE(Pool::InRegion());
    return 0;
  });
  EXPECT_FALSE(Pool::InRegion());
}

TEST(PoolTest, AtMostThreadsMembersRunAtOnce) {
  Pool pool(3);
  std::atomic<int> now{0}, most{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        pool.ParallelFor(3, [&](int64_t, int64_t) {
          const int running = ++now;
          int seen = most;
          while (running > seen && !most.compare_exchange_weak(seen, running)) {
          }
          std::this_thread::yield();
          --now;
          return 0;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_LE(most, 3);
  EXPECT_GE(most, 2);
}

TEST(PoolTest, MembersRunTogetherWhenThereIsOneIndexEach) {
  Pool pool(3);
  std::atomic<int> arrived{0};
  pool.ParallelFor(3, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
    return 0;
  });
  EXPECT_EQ(arrived, 3);
}

TEST(PoolTest, NestedRegionsAreSerial) {
  Pool pool(2), other(2);
  std::atomic<int> calls{0};
  for (Pool* inner : {&pool, &other}) {
    pool.ParallelFor(2, [&](int64_t, int64_t) {
      const std::thread::id self = std::this_thread::get_id();
      return inner->ParallelFor(10, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        EXPECT_EQ(begin, 0);
        EXPECT_EQ(end, 10);
        ++calls;
        return 0;
      });
    });
  }
  EXPECT_EQ(calls, 4);
}

TEST(PoolTest, ReturnsAnError) {
  Pool pool(4);
  EXPECT_EQ(pool.ParallelFor(4, [](int64_t begin, int64_t) { return begin == 2 ? -7 : 0; }), -7);
  EXPECT_EQ(pool.ParallelFor(4, [](int64_t, int64_t) { return 0; }), 0);
}

TEST(PoolTest, LimitLowersTheNumberOfMembers) {
  Pool pool(4);
  std::atomic<int> members{0};
  pool.ParallelFor(
      100,
      [&](int64_t, int64_t) {
        ++members;
        return 0;
      },
      2);
  EXPECT_EQ(members, 2);
}

TEST(PoolTest, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no new threads after a fork";
#endif
  Pool pool(2);
  const auto sum = [&] {
    std::atomic<int64_t> total{0};
    pool.ParallelFor(1000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) total += i;
      return 0;
    });
    return total.load();
  };
  ASSERT_EQ(sum(), 499500);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(sum() == 499500 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(sum(), 499500);
}

TEST(PoolTest, ARegionInTwoHalvesHasExactlyTheMembersAsked) {
  Pool pool(4);
  struct Seen {
    std::atomic<int> members[4] = {};
    std::atomic<int> inside{0};
  } seen;
  const Pool::MemberFn task = [](void* data, int member) {
    auto& s = *static_cast<Seen*>(data);
    ++s.members[member];
    EXPECT_EQ(Pool::Member(), member);
    if (Pool::InRegion()) ++s.inside;
  };
  ASSERT_TRUE(pool.Begin(3, task, &seen));
  EXPECT_TRUE(Pool::InRegion());
  EXPECT_EQ(Pool::Member(), 0);
  EXPECT_FALSE(pool.Begin(2, task, &seen));  // nested
  EXPECT_EQ(
      pool.ParallelFor(5, [](int64_t begin, int64_t end) { return static_cast<int>(end - begin); }),
      5);
  pool.End();
  EXPECT_FALSE(Pool::InRegion());
  EXPECT_EQ(seen.members[0], 0);  // the caller
  EXPECT_EQ(seen.members[1], 1);
  EXPECT_EQ(seen.members[2], 1);
  EXPECT_EQ(seen.members[3], 0);
  EXPECT_EQ(seen.inside, 2);
}

TEST(PoolTest, RegionsOfBothFormsTakeTurns) {
  Pool pool(2);
  std::atomic<int> regions{0}, most{0};
  const auto inside = [&] {
    int seen = most, now = ++regions;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::yield();
    --regions;
  };
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < 300; ++i) {
        if (c % 2 == 0) {
          pool.ParallelFor(2, [&](int64_t begin, int64_t) {
            if (begin == 0) inside();
            return 0;
          });
        } else {
          ASSERT_TRUE(pool.Begin(
              2, [](void*, int) {}, nullptr));
          inside();
          pool.End();
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(most, 1);
}

TEST(PoolTest, SleepingWorkersWakeUp) {
  Pool pool(2);
  for (int i = 0; i < 20; ++i) {
    usleep(2000);
    EXPECT_EQ(RangesOf(pool, 2)[1], Range(1, 2));
  }
}

TEST(SlabTest, GivesAlignedMemoryAndTakesItBackInAnyOrder) {
  Slab slab;
  auto* a = static_cast<uint8_t*>(slab.Allocate(100));
  auto* b = static_cast<uint8_t*>(slab.Allocate(0));
  auto* c = static_cast<uint8_t*>(slab.Allocate(5));
  for (uint8_t* p : {a, b, c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
  EXPECT_TRUE(a + 100 <= b && b < c);
  slab.Release(a);
  slab.Release(nullptr);
  slab.Release(c);
  EXPECT_EQ(slab.Allocate(1), c);
  slab.Release(c);
  slab.Release(b);
  EXPECT_EQ(slab.Allocate(1), a);
}

TEST(SlabTest, KeepsWhatItGrewTo) {
  Slab slab;
  for (int round = 0; round < 3; ++round) {
    const size_t before = slab.reserved();
    std::vector<void*> all;
    for (int i = 0; i < 10; ++i) {
      all.push_back(slab.Allocate(100000));
      std::memset(all.back(), i, 100000);
    }
    for (void* p : all) slab.Release(p);
    EXPECT_TRUE(round == 0 || slab.reserved() == before);
  }
}

TEST(SlabTest, RefusesWhatNoMachineHas) {
  Slab slab;
  EXPECT_EQ(slab.Allocate(SIZE_MAX - 10), nullptr);
  EXPECT_EQ(slab.Allocate(SIZE_MAX / 8), nullptr);
  EXPECT_NE(slab.Allocate(8), nullptr);
}

}  // namespace
}  // namespace kiln
