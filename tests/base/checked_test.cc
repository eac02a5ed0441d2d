// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(CheckedTest, GivesNothingInsteadOfWrapping) {
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedSub(kMin + 1, 1), kMin);
  EXPECT_EQ(CheckedSub(kMin, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMul(kMin, -1), std::nullopt);
}

TEST(CheckedTest, ProductOfNothingIsOne) { EXPECT_EQ(CheckedProduct({}), 1); }

TEST(CheckedTest, ZeroMakesAnyProductZero) {
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{kMax, kMax, 0}), 0);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{0, kMax, kMax}), 0);
}

TEST(CheckedTest, ProductOverflows) {
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{2, 3, 4}), 24);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
}

TEST(CheckedTest, RoundsUpToMultiples) {
  EXPECT_EQ(CheckedRoundUp(0, 64), 0);
  EXPECT_EQ(CheckedRoundUp(1, 64), 64);
  EXPECT_EQ(CheckedRoundUp(64, 64), 64);
  EXPECT_EQ(CheckedRoundUp(kMax, 64), std::nullopt);
}

}  // namespace
}  // namespace kiln
