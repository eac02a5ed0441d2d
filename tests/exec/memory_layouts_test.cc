// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

constexpr int64_t kAlignment = 64, kSmall = 1 << 16;
constexpr auto kFixed = MemoryLayouts::Sizes::kFixed, kGrowing = MemoryLayouts::Sizes::kGrowing;

// A store in memory.
class Kept : public MemoryPlanStore {
 public:
  std::optional<std::vector<int64_t>> Find(std::span<const Interval> intervals,
                                           int64_t alignment) override {
    const auto found = plans_.find(KeyOf(intervals, alignment));
    return found == plans_.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(std::span<const Interval> intervals, int64_t alignment,
            const std::vector<int64_t>& offsets) override {
    plans_[KeyOf(intervals, alignment)] = offsets;
  }
  std::map<std::vector<int64_t>, std::vector<int64_t>> plans_;

 private:
  static std::vector<int64_t> KeyOf(std::span<const Interval> intervals, int64_t alignment) {
    std::vector<int64_t> key = {alignment};
    for (const Interval& i : intervals) key.insert(key.end(), {i.lower, i.upper, i.size});
    return key;
  }
};

// Intervals on which the greedy orders leave a gap.
std::vector<Interval> Hard(std::mt19937& rng) {
  PlanBudget greedy;
  greedy.visits = 0;
  for (;;) {
    std::vector<Interval> made;
    for (int i = 0; i < 14; ++i) {
      const auto lower = static_cast<int64_t>(rng() % 8);
      made.push_back({lower, lower + 1 + static_cast<int64_t>(rng() % 5),
                      static_cast<int64_t>(64 * (1 + rng() % 12))});
    }
    if (!PlanMemory(made, kAlignment, greedy)->optimal && PlanMemory(made, kAlignment)->optimal)
      return made;
  }
}

std::vector<Interval> Pair(int64_t size) { return {{0, 2, size}, {1, 3, kSmall}}; }

TEST(MemoryLayouts, GrowByDoubling) {
  MemoryLayouts layouts;
  const auto peak = [&](int64_t size) {
    const absl::StatusOr<MemoryPlan> plan = layouts.Plan(Pair(size), kAlignment, kGrowing);
    return plan.ok() ? plan->peak : -1;
  };
  EXPECT_EQ(peak(64'000), kSmall + 64'000);
  EXPECT_EQ(layouts.made(), 1);
  EXPECT_EQ(peak(128'000), kSmall + 128'000);  // the second one is exact too
  EXPECT_EQ(layouts.made(), 2);
  EXPECT_EQ(peak(192'000), kSmall + 384'000);  // what has changed is doubled
  EXPECT_EQ(layouts.made(), 3);
  EXPECT_EQ(peak(384'000), kSmall + 384'000);
  EXPECT_EQ(peak(256'000), kSmall + 384'000);
  EXPECT_EQ(layouts.made(), 3);
  EXPECT_EQ(peak(64'000), kSmall + 64'000);  // the least that fits
  EXPECT_EQ(peak(32'000), kSmall + 64'000);
  EXPECT_EQ(layouts.made(), 3);
}

TEST(MemoryLayouts, BoundsAreTheIntervalsOwn) {
  MemoryLayouts layouts;
  for (const int64_t size : {100'000, 200'000, 300'000}) {
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                              layouts.Plan(Pair(size), kAlignment, kGrowing));
    EXPECT_TRUE(plan.made);
    EXPECT_EQ(plan.lower_bound, kSmall + (size + 63) / 64 * 64);
    EXPECT_EQ(plan.sum, plan.lower_bound);
    EXPECT_EQ(plan.optimal, size < 300'000);
  }
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan again,
                            layouts.Plan(Pair(400'000), kAlignment, kGrowing));
  EXPECT_FALSE(again.made);
  EXPECT_EQ(again.lower_bound, kSmall + 400'000);
  EXPECT_EQ(again.peak, kSmall + 600'000);
}

TEST(MemoryLayouts, WhatWouldWasteIsMadeAnew) {
  MemoryLayouts layouts;
  KILN_ASSERT_OK(layouts.Plan(Pair(10'000'000), kAlignment, kGrowing));
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan small,
                            layouts.Plan(Pair(100'000), kAlignment, kGrowing));
  EXPECT_EQ(small.peak, small.lower_bound);
  EXPECT_EQ(layouts.made(), 2);
}

TEST(MemoryLayouts, OtherLivesAreOtherPlans) {
  MemoryLayouts layouts;
  KILN_ASSERT_OK(layouts.Plan(Pair(100'000), kAlignment, kGrowing));
  const std::vector<Interval> apart = {{0, 1, 100'000}, {1, 3, kSmall}};
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, layouts.Plan(apart, kAlignment, kGrowing));
  EXPECT_EQ(plan.peak, 100'032);
  EXPECT_EQ(layouts.made(), 2);
}

TEST(MemoryLayouts, SizesThatCannotDoubleArePlannedAsTheyAre) {
  MemoryLayouts layouts;
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() - 4096;
  for (const int64_t size : {kHuge - 256, kHuge - 128, kHuge - 64}) {
    const std::vector<Interval> one = {{0, 1, size}};
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, layouts.Plan(one, kAlignment, kGrowing));
    EXPECT_EQ(plan.peak, plan.lower_bound);
  }
  EXPECT_EQ(layouts.Plan(std::vector<Interval>{{2, 1, 64}}, kAlignment, kGrowing).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MemoryLayouts, WhatTookASearchIsKept) {
  std::mt19937 rng(7);
  const std::vector<Interval> hard = Hard(rng);
  Kept store;
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan made,
                            MemoryLayouts(&store).Plan(hard, kAlignment, kFixed));
  EXPECT_TRUE(made.optimal);
  EXPECT_GT(made.nodes, 0);
  ASSERT_EQ(store.plans_.size(), 1U);
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan found,
                            MemoryLayouts(&store).Plan(hard, kAlignment, kFixed));
  EXPECT_EQ(found.offsets, made.offsets);
  EXPECT_EQ(found.peak, made.peak);
  EXPECT_EQ(found.nodes, 0);
  EXPECT_EQ(found.order, "stored");
}

TEST(MemoryLayouts, WhatTheStoreHasIsNotBelieved) {
  std::mt19937 rng(8);
  const std::vector<Interval> hard = Hard(rng);
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan own, PlanMemory(hard, kAlignment));
  for (int round = 0; round < 200; ++round) {
    Kept store;
    std::vector<int64_t> offsets = own.offsets;
    for (int64_t& offset : offsets)
      if (rng() % 4 == 0) offset += static_cast<int64_t>(rng() % 1024) - 512;
    if (rng() % 8 == 0) offsets[0] = std::numeric_limits<int64_t>::max() - 8;
    if (rng() % 8 == 0) offsets.pop_back();
    store.Keep(hard, kAlignment, offsets);
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                              MemoryLayouts(&store).Plan(hard, kAlignment, kFixed));
    KILN_ASSERT_OK(VerifyPlan(hard, plan, kAlignment));
    ASSERT_LE(plan.peak, own.peak);
  }
}

TEST(MemoryLayouts, ImproveSearchesOn) {
  std::mt19937 rng(9);
  const std::vector<Interval> hard = Hard(rng);
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan best, PlanMemory(hard, kAlignment));
  PlanBudget greedy;
  greedy.visits = 0;
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan worse, PlanMemory(hard, kAlignment, greedy));
  Kept store;
  store.Keep(hard, kAlignment, worse.offsets);  // as a smaller budget would have left it
  MemoryLayouts layouts(&store);
  KILN_ASSERT_OK_AND_ASSIGN(MemoryPlan plan, layouts.Plan(hard, kAlignment, kFixed));
  EXPECT_EQ(plan.offsets, worse.offsets);
  layouts.Improve(1 << 20);
  KILN_ASSERT_OK_AND_ASSIGN(plan, MemoryLayouts(&store).Plan(hard, kAlignment, kFixed));
  EXPECT_EQ(plan.peak, best.peak);
  EXPECT_LT(plan.peak, worse.peak);
}

// Families of intervals whose sizes go up, down and about: every plan is right for its own sizes
// (VerifyPlan), within twice its bound or a greedy plan's gap, and few are made.
TEST(MemoryLayouts, RandomGrowth) {
  std::mt19937 rng(20261127);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  for (int round = 0; round < 40; ++round) {
    MemoryLayouts layouts;
    std::vector<Interval> base;
    std::vector<int64_t> slope;
    for (int64_t i = pick(1, 30); i > 0; --i) {
      const int64_t lower = pick(0, 20);
      base.push_back({lower, lower + pick(1, 6), pick(0, 20'000)});
      slope.push_back(pick(0, 2) == 0 ? 0 : pick(1, 3'000));
    }
    const bool grows = round % 2 == 0;
    for (int64_t step = 0; step < 300; ++step) {
      std::vector<Interval> now = base;
      const int64_t factor = grows ? step : pick(0, 300);
      for (size_t i = 0; i < now.size(); ++i) now[i].size += slope[i] * factor;
      KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, layouts.Plan(now, kAlignment, kGrowing));
      KILN_ASSERT_OK(VerifyPlan(now, plan, kAlignment));
      KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan own, PlanMemory(now, kAlignment));
      ASSERT_EQ(plan.lower_bound, own.lower_bound);
      ASSERT_EQ(plan.sum, own.sum);
      ASSERT_LE(plan.peak, std::max({2 * own.lower_bound, own.peak, kSmall}));
    }
    EXPECT_LE(layouts.made(), grows ? 12 : 300) << round;
  }
}

}  // namespace
}  // namespace kiln
