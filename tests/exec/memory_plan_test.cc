// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_plan.h"

#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using testing::HasSubstr;

std::vector<Interval> ReadCsv(const std::string& name) {
  std::ifstream file(std::string(KILN_TEST_DATA_DIR) + "/minimalloc/" + name);
  std::vector<Interval> intervals;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    Interval interval;
    EXPECT_TRUE(cells.size() >= 4 && absl::SimpleAtoi(cells[1], &interval.lower) &&
                absl::SimpleAtoi(cells[2], &interval.upper) &&
                absl::SimpleAtoi(cells[3], &interval.size));
    intervals.push_back(interval);
  }
  return intervals;
}

// Live bytes by counting at every step: independent of the planner's sweep.
int64_t BruteForceBound(const std::vector<Interval>& intervals, int64_t alignment) {
  int64_t bound = 0;
  for (const Interval& at : intervals) {
    int64_t live = 0;
    for (const Interval& i : intervals) {
      if (i.lower <= at.lower && at.lower < i.upper) {
        live += (i.size + alignment - 1) / alignment * alignment;
      }
    }
    bound = std::max(bound, live);
  }
  return bound;
}

// Results of launches: most live a few steps, some long.
std::vector<Interval> RandomLaunches(std::mt19937_64& random, int64_t launches) {
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < launches; ++i) {
    int64_t life = 2 + static_cast<int64_t>(random() % 3);
    if (random() % 8 == 0) life += static_cast<int64_t>(random() % 40);
    if (random() % 50 == 0) life += static_cast<int64_t>(random()) % launches;
    int64_t size = int64_t{64} << random() % 16;
    if (random() % 2 == 0) size += static_cast<int64_t>(random() % 1024) * size / 1024;
    intervals.push_back({i, std::min(i + std::max<int64_t>(life, 1), launches + 1), size});
  }
  return intervals;
}

TEST(MemoryPlan, PlansNothingForNoIntervals) {
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory({}, 64));
  EXPECT_EQ(plan.peak, 0);
  EXPECT_TRUE(plan.optimal);
}

TEST(MemoryPlan, ReusesMemoryOfTheDead) {
  // A chain a -> b -> c: a and c share.
  const std::vector<Interval> chain = {{0, 2, 100}, {1, 3, 10}, {2, 4, 100}};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(chain, 64));
  EXPECT_EQ(plan.lower_bound, 192);
  EXPECT_EQ(plan.peak, 192);
  EXPECT_EQ(plan.sum, 128 + 64 + 128);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  KILN_EXPECT_OK(VerifyPlan(chain, plan, 64));
}

TEST(MemoryPlan, EqualSizesAreOptimal) {
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < 40; ++i) intervals.push_back({i, i + 1 + i % 7, 64});
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 64));
  EXPECT_TRUE(plan.optimal);
}

TEST(MemoryPlan, EmptyBuffersTakeNoMemory) {
  const std::vector<Interval> intervals = {{0, 5, 0}, {0, 5, 0}, {1, 2, 1}};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 64));
  EXPECT_EQ(plan.peak, 64);
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 64));
}

TEST(MemoryPlan, SmallInstanceOfMiniMallocFitsInItsCapacity) {
  const std::vector<Interval> intervals = ReadCsv("input.12.csv");
  ASSERT_FALSE(intervals.empty());
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
  EXPECT_EQ(plan.lower_bound, BruteForceBound(intervals, 1));
  EXPECT_EQ(plan.peak, 12);
}

// Greedy orders leave 29 to 37 % above the bound.
TEST(MemoryPlan, HardInstancesFitInTheirCapacity) {
  PlanBudget budget{.visits = kOfflineVisits, .capacity = 1048576};
  for (const char* name : {"A", "B", "C", "D", "E"}) {
    const std::vector<Interval> intervals = ReadCsv(std::string(name) + ".1048576.csv");
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1, budget));
    KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
    EXPECT_LE(plan.peak, 1048576) << name;
    EXPECT_EQ(plan.optimal, plan.peak == plan.best_bound);
    EXPECT_TRUE(plan.complete);
    EXPECT_GT(plan.nodes, 0);
  }
}

TEST(MemoryPlan, WithoutACapacityThePeakIsTheLeast) {
  const std::vector<Interval> intervals = ReadCsv("C.1048576.csv");
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                            PlanMemory(intervals, 1, {.visits = kOfflineVisits}));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
  EXPECT_EQ(plan.peak, 1039360);
  EXPECT_EQ(plan.lower_bound, 1039360);
  EXPECT_TRUE(plan.optimal);
  EXPECT_THAT(plan.order, testing::StartsWith("exact "));
}

TEST(MemoryPlan, WithoutVisitsItIsGreedy) {
  const std::vector<Interval> intervals = ReadCsv("A.1048576.csv");
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1, {.visits = 0}));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
  EXPECT_EQ(plan.nodes, 0);
  EXPECT_FALSE(plan.optimal);
  EXPECT_EQ(plan.best_bound, plan.lower_bound);
  EXPECT_THAT(plan.order, testing::EndsWith("-fit"));
}

TEST(MemoryPlan, ACapacityThatIsTooSmallIsFoundOut) {
  const std::vector<Interval> intervals = ReadCsv("input.12.csv");
  PlanBudget budget{.capacity = 5};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1, budget));
  EXPECT_GT(plan.best_bound, 5);
  EXPECT_GE(plan.peak, plan.best_bound);
}

TEST(MemoryPlan, WhatIsStoppedIsNotComplete) {
  const std::vector<Interval> intervals = ReadCsv("A.1048576.csv");
  int asked = 0;
  const std::thread::id caller = std::this_thread::get_id();
  PlanBudget budget{.visits = kOfflineVisits, .stop = [&] {
                      EXPECT_EQ(std::this_thread::get_id(), caller);  // no thread is started
                      return ++asked == 3;
                    }};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1, budget));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
  EXPECT_FALSE(plan.complete);
  EXPECT_EQ(asked, 3);
  budget.stop = [] { return false; };
  budget.visits = kRuntimeVisits;
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan whole, PlanMemory(intervals, 1, budget));
  EXPECT_TRUE(whole.complete);
}

// The time of one greedy order grows with the square of the intervals.
TEST(MemoryPlan, LargeOnesStopToo) {
  const std::vector<Interval> intervals(5000, {0, 1, 64});
  int asked = 0;
  const PlanBudget budget{.stop = [&] { return ++asked == 3; }};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 64, budget));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 64));
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(plan.complete);
  std::vector<Interval> apart;  // that could share memory, had there been time
  for (int64_t i = 0; i < 5000; ++i) apart.push_back({i, i + 2, 64});
  asked = 2;
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan stacked, PlanMemory(apart, 64, budget));
  KILN_EXPECT_OK(VerifyPlan(apart, stacked, 64));
  EXPECT_EQ(stacked.peak, 5000 * 64);
}

// Whoever runs the searches, and in whatever order.
TEST(MemoryPlan, IsTheSameForAllThreads) {
  std::mt19937_64 random(11);
  std::vector<std::vector<Interval>> problems = {ReadCsv("A.1048576.csv"),
                                                 ReadCsv("E.1048576.csv")};
  for (int round = 0; round < 20; ++round) problems.push_back(RandomLaunches(random, 250));
  int searched = 0;
  for (const std::vector<Interval>& intervals : problems) {
    PlanBudget budget{.visits = int64_t{1} << 20};
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1, budget));
    searched += plan.nodes > 0;
    for (int threads = 0; threads <= 4; ++threads) {
      budget.for_each = [threads](size_t n, const std::function<void(size_t)>& task) {
        if (threads > 0) return ForEachInParallel(n, task, threads);
        while (n > 0) task(--n);
      };
      KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan other, PlanMemory(intervals, 1, budget));
      ASSERT_EQ(other.offsets, plan.offsets) << threads;
      EXPECT_EQ(other.nodes, plan.nodes) << threads;
      EXPECT_EQ(other.order, plan.order) << threads;
      EXPECT_EQ(other.best_bound, plan.best_bound) << threads;
    }
  }
  EXPECT_GE(searched, 4);
}

// Sums of sizes near 2^63 are planned without the search, whose bounds would not fit.
TEST(MemoryPlan, HugeSizesAreNotSearched) {
  constexpr int64_t kHuge = int64_t{1} << 61;
  std::vector<Interval> intervals = ReadCsv("input.12.csv");
  for (Interval& i : intervals) i.size *= kHuge / 64;
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
  EXPECT_EQ(plan.nodes, 0);
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min(),
                    kLast = std::numeric_limits<int64_t>::max();
  const std::vector<Interval> long_lives = {{kFirst, kLast, 8}, {kFirst, 0, 8}, {0, kLast, 8}};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan ends, PlanMemory(long_lives, 1));
  EXPECT_EQ(ends.peak, 16);
}

TEST(MemoryPlan, RandomPlansHold) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals(random() % 60);
    for (Interval& i : intervals) {
      i.lower = static_cast<int64_t>(random() % 30) - 10;
      i.upper = i.lower + 1 + static_cast<int64_t>(random() % 10);
      i.size = static_cast<int64_t>(random() % 500);
    }
    const int64_t alignment = int64_t{1} << random() % 8;
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, alignment));
    KILN_ASSERT_OK(VerifyPlan(intervals, plan, alignment));
    EXPECT_EQ(plan.lower_bound, BruteForceBound(intervals, alignment));
    EXPECT_GE(plan.peak, plan.lower_bound);
    EXPECT_LE(plan.peak, plan.sum);
  }
}

TEST(MemoryPlan, RefusesMalformedIntervals) {
  EXPECT_THAT(PlanMemory(std::vector<Interval>{{3, 3, 1}}, 64),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("interval 0")));
  EXPECT_THAT(PlanMemory(std::vector<Interval>{{0, 1, -1}}, 64),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(PlanMemory({}, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(PlanMemory(std::vector<Interval>{{0, 1, kMost}}, 64),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(PlanMemory(std::vector<Interval>{{0, 1, kMost - 63}, {2, 3, 64}}, 64),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(VerifyPlan, FindsEveryKindOfMistake) {
  const std::vector<Interval> intervals = {{0, 2, 64}, {1, 3, 64}, {2, 4, 64}};
  MemoryPlan plan{{0, 64, 0}, 128, 128, 192, true};
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 64));
  EXPECT_FALSE(VerifyPlan(intervals, {{0, 0, 64}, 128, 128, 192, true}, 64).ok());     // same place
  EXPECT_FALSE(VerifyPlan(intervals, {{0, 32, 128}, 192, 128, 192, false}, 32).ok());  // overlap
  EXPECT_FALSE(VerifyPlan(intervals, {{32, 0, 128}, 192, 128, 192, false}, 32).ok());  // from below
  EXPECT_FALSE(VerifyPlan(intervals, {{0, 64, 128}, 128, 128, 192, true}, 64).ok());   // too high
  EXPECT_FALSE(VerifyPlan(intervals, {{0, 65, 0}, 192, 128, 192, false}, 64).ok());    // unaligned
  EXPECT_FALSE(VerifyPlan(intervals, {{0, 64}, 128, 128, 192, true}, 64).ok());  // one missing
}

}  // namespace
}  // namespace kiln
