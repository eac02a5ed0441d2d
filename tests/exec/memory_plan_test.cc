// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_plan.h"

#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
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

TEST(MemoryPlan, SmallInstanceOfMiniMallocIsNearItsCapacity) {
  const std::vector<Interval> intervals = ReadCsv("input.12.csv");
  ASSERT_FALSE(intervals.empty());
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1));
  KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
  EXPECT_EQ(plan.lower_bound, BruteForceBound(intervals, 1));
  EXPECT_LE(plan.peak, 14);
  EXPECT_GE(plan.peak, plan.lower_bound);
}

TEST(MemoryPlan, HardInstancesAreValidAndBelowTheSum) {
  for (const char* name : {"A", "B", "C", "D", "E"}) {
    const std::vector<Interval> intervals = ReadCsv(std::string(name) + ".1048576.csv");
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(intervals, 1));
    KILN_EXPECT_OK(VerifyPlan(intervals, plan, 1));
    EXPECT_LE(plan.peak, plan.lower_bound * 7 / 5) << name;
  }
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
