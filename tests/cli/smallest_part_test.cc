// SPDX-License-Identifier: Apache-2.0
// Delta debugging against planted causes.
#include "tools/smallest_part.h"

#include <algorithm>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace kiln {
namespace {

using Items = std::vector<size_t>;

TEST(FindSmallestPart, FindsWhatIsNeededTogether) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    const size_t count = 1 + random() % 40;
    Items needed;
    for (size_t i = 0; i < count; ++i)
      if (random() % (1 + count / 3) == 0) needed.push_back(i);
    if (needed.empty()) needed.push_back(random() % count);
    std::set<Items> asked;
    const auto fails = [&](const Items& items) {
      EXPECT_TRUE(std::is_sorted(items.begin(), items.end())) << "seed " << seed;
      EXPECT_FALSE(items.empty());
      EXPECT_TRUE(asked.insert(items).second) << "asked twice; seed " << seed;
      return std::includes(items.begin(), items.end(), needed.begin(), needed.end());
    };
    const SmallestPart part = FindSmallestPart(count, fails, 10'000);
    EXPECT_EQ(part.items, needed) << "seed " << seed;
    EXPECT_TRUE(part.minimal);
    EXPECT_EQ(part.tries, static_cast<int>(asked.size()));
    EXPECT_LE(part.tries, static_cast<int>(count * count + 3 * count));
  }
}

// Causes of any kind: the part fails, and no item of it can be left out.
TEST(FindSmallestPart, IsMinimalWhateverFails) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const size_t count = 2 + seed % 9;
    const auto fails = [&](const Items& items) {
      uint64_t bits = 0;
      for (const size_t item : items) bits |= uint64_t{1} << item;
      return bits + 1 == uint64_t{1} << count || std::mt19937_64(seed * 1000 + bits)() % 4 == 0;
    };
    const SmallestPart part = FindSmallestPart(count, fails, 10'000);
    EXPECT_TRUE(fails(part.items)) << "seed " << seed;
    for (size_t k = 0; part.items.size() > 1 && k < part.items.size(); ++k) {
      Items without = part.items;
      without.erase(without.begin() + static_cast<int64_t>(k));
      EXPECT_FALSE(fails(without)) << "seed " << seed;
    }
  }
}

TEST(FindSmallestPart, SaysWhereTriesWereNotEnough) {
  int calls = 0;
  const auto fails = [&](const Items& items) {
    ++calls;
    return items.size() >= 20;
  };
  const SmallestPart part = FindSmallestPart(40, fails, 3);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(part.tries, 3);
  EXPECT_FALSE(part.minimal);
  EXPECT_GE(part.items.size(), 20u);
}

}  // namespace
}  // namespace kiln
