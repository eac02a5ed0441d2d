// SPDX-License-Identifier: Apache-2.0
// The ways here differ in time by far more than a busy machine adds.
#include "base/interleave.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

namespace kiln {
namespace {

void SpinFor(double us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us);
  while (std::chrono::steady_clock::now() < end) {
  }
}

// us[way][point]; a negative time fails.
Race RaceOf(const std::vector<std::vector<double>>& us) {
  return RaceWays(us.size(), us[0].size(), [&](size_t way, size_t point) {
    if (us[way][point] < 0) return absl::InternalError("fails");
    SpinFor(us[way][point]);
    return absl::OkStatus();
  });
}

TEST(RaceWays, TheFasterWins) {
  const Race race = RaceOf({{40}, {90}, {10}});
  EXPECT_EQ(race.winner, 2u);
  EXPECT_GE(race.rounds, 9);
  ASSERT_EQ(race.ns.size(), 3u);
  EXPECT_LT(race.ns[2], race.ns[0]);
  EXPECT_LT(race.ns[0], race.ns[1]);
}

TEST(RaceWays, WhatIsNotClearlyFasterDoesNotWin) {
  EXPECT_EQ(RaceOf({{50}, {50}, {49.8}}).winner, 0u);
  EXPECT_EQ(RaceOf({{10}, {40}}).winner, 0u);
}

TEST(RaceWays, WhatIsSlowerAtOnePointDoesNotWin) {
  EXPECT_EQ(RaceOf({{40, 20}, {4, 40}}).winner, 0u);
  EXPECT_EQ(RaceOf({{40, 20}, {4, 20}}).winner, 1u);
}

TEST(RaceWays, TooShortToTellKeepsTheFirst) {
  const Race race = RaceOf({{1}, {0}});
  EXPECT_EQ(race.winner, 0u);
  EXPECT_EQ(race.rounds, 0);
}

TEST(RaceWays, WhatFailsLoses) {
  const Race race = RaceOf({{40}, {-1}});
  EXPECT_EQ(race.winner, 0u);
  EXPECT_TRUE(std::isinf(race.ns[1]));
  EXPECT_EQ(RaceOf({{-1}, {-1}, {40}}).winner, 2u);
}

}  // namespace
}  // namespace kiln
