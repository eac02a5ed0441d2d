// SPDX-License-Identifier: Apache-2.0
// The interval of a ratio holds the ratio that the times were drawn with, about as often as it
// says.
#include "tools/ratio_interval.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(RatioInterval, HoldsTheTrueRatioInAbout95OfAHundredSeries) {
  constexpr int kSeries = 300, kRounds = 40;
  constexpr double kRatio = 1.25;
  int held = 0, narrow = 0;
  for (int series = 0; series < kSeries; ++series) {
    std::mt19937_64 random(static_cast<uint64_t>(series) + 1);
    std::lognormal_distribution<double> noise(0, 0.1);
    std::vector<double> first, other;
    for (int round = 0; round < kRounds; ++round) {
      first.push_back(kRatio * noise(random));
      other.push_back(noise(random));
    }
    const Interval95 interval = RatioInterval(first, other);
    held += interval.Contains(kRatio) ? 1 : 0;
    narrow += interval.high - interval.low < 0.3 ? 1 : 0;
  }
  EXPECT_GE(held, kSeries * 90 / 100);
  EXPECT_LE(held, kSeries * 995 / 1000);
  EXPECT_GE(narrow, kSeries * 95 / 100) << "an interval that holds everything says nothing";
}

// What slows down a round slows down both.
TEST(RatioInterval, KeepsARoundTogether) {
  std::mt19937_64 random(7);
  std::vector<double> first, other;
  for (int round = 0; round < 60; ++round) {
    const double load = round < 30 ? 1 : 10;
    first.push_back(2 * load);
    other.push_back(load);
  }
  const Interval95 interval = RatioInterval(first, other);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 2);
}

TEST(RatioInterval, OfOneRoundIsItsRatio) {
  const Interval95 interval = RatioInterval({3}, {2});
  EXPECT_EQ(interval.low, 1.5);
  EXPECT_EQ(interval.high, 1.5);
  EXPECT_TRUE(RatioInterval({3}, {3}).Contains(1));
}

TEST(Quantile, IsTheSortedElement) {
  EXPECT_EQ(Quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({3, 1, 2}, 1), 3);
}

}  // namespace
}  // namespace kiln
