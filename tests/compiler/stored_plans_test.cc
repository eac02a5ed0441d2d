// SPDX-License-Identifier: Apache-2.0
#include "compiler/stored_plans.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "exec/memory/layouts.h"
#include "tests/base/status_matchers.h"
#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

constexpr int64_t kAlignment = 64;

using StoredPlansTest = StoreTestBase;

const std::vector<Interval> kIntervals = {{0, 2, 100}, {1, 3, 64}, {2, 5, int64_t{1} << 40}};

TEST_F(StoredPlansTest, AreFoundForTheSameIntervalsOnly) {
  const std::vector<int64_t> offsets = {128, 0, 64};
  {
    const std::unique_ptr<Store> store = Open();
    StoredPlans plans(*store, {});
    EXPECT_EQ(plans.Find(kIntervals, kAlignment), std::nullopt);
    plans.Keep(kIntervals, kAlignment, {0, 128, 192});
    plans.Keep(kIntervals, kAlignment, offsets);  // the last one stays
    plans.Wait();
  }
  const std::unique_ptr<Store> store = Open(ReadOnly());
  StoredPlans plans(*store, {});
  EXPECT_EQ(plans.Find(kIntervals, kAlignment), offsets);
  EXPECT_EQ(plans.Find(kIntervals, 128), std::nullopt);
  for (size_t i = 0; i < kIntervals.size(); ++i) {
    for (const auto member : {&Interval::lower, &Interval::upper, &Interval::size}) {
      std::vector<Interval> other = kIntervals;
      ++(other[i].*member);
      EXPECT_EQ(plans.Find(other, kAlignment), std::nullopt);
    }
  }
  plans.Keep({}, kAlignment, {});  // of a store that nobody may write: nothing happens
  plans.Wait();
  EXPECT_EQ(store->counters().misses, 0);  // these are nobody's kernels
}

TEST_F(StoredPlansTest, DamagedFilesGiveAPlanAllTheSame) {
  std::mt19937 rng(33);
  std::vector<Interval> intervals;
  for (int i = 0; i < 40; ++i) {
    const auto lower = static_cast<int64_t>(rng() % 16);
    intervals.push_back({lower, lower + 1 + static_cast<int64_t>(rng() % 6),
                         64 + static_cast<int64_t>(rng() % 4096)});
  }
  const std::unique_ptr<Store> store = Open();
  StoredPlans plans(*store, {});
  KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan own, PlanMemory(intervals, kAlignment));
  for (int round = 0; round < 40; ++round) {
    plans.Keep(intervals, kAlignment, own.offsets);
    plans.Wait();
    for (const auto& file : std::filesystem::recursive_directory_iterator(Path())) {
      if (!file.is_regular_file() || file.file_size() < 300) continue;
      std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(static_cast<std::streamoff>(rng() % file.file_size()));
      bytes.put(static_cast<char>(rng()));
    }
    MemoryLayouts layouts(&plans);
    KILN_ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                              layouts.Plan(intervals, kAlignment, MemoryLayouts::Sizes::kFixed));
    KILN_ASSERT_OK(VerifyPlan(intervals, plan, kAlignment));
    ASSERT_EQ(plan.peak, own.peak);
  }
}

}  // namespace
}  // namespace kiln
