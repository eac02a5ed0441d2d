// SPDX-License-Identifier: Apache-2.0
#include "fusion/axes.h"

#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Atoms Join(const std::vector<Atoms>& axes) {
  Atoms all;
  for (const Atoms& axis : axes) all.insert(all.end(), axis.begin(), axis.end());
  return all;
}

TEST(AxisTable, HasNoAtomForExtentOne) {
  AxisTable table;
  EXPECT_THAT(table.New(1), IsEmpty());
  EXPECT_THAT(table.New(Dim::Symbol("n")), SizeIs(1));
}

TEST(AxisTable, JoinsTwoAxes) {
  AxisTable table;
  const Atoms a = table.New(8);
  const Atoms b = table.New(8);
  ASSERT_THAT(table.Unify(a, b), IsOk());
  EXPECT_EQ(table.Leaves(a), table.Leaves(b));
}

// Each value of a long chain joins the atom of the one before: what it has come to is found
// without a step for each of them, and without recursion.
TEST(AxisTable, JoinsAMillionAxesInARow) {
  AxisTable table;
  const Atoms first = table.New(7);
  Atoms last = first;
  for (int k = 0; k < 1000000; ++k) {
    const Atoms next = table.New(7);
    ASSERT_TRUE(table.Unify(next, last).ok());
    last = next;
  }
  EXPECT_EQ(table.Leaves(first), last);
}

TEST(AxisTable, SplitsAnAxisAsTheReshapeDoes) {
  AxisTable table;
  const Atoms whole = table.New(12);
  const Atoms parts = Join({table.New(3), table.New(4)});
  ASSERT_THAT(table.Unify(whole, parts), IsOk());
  EXPECT_EQ(table.Leaves(whole), table.Leaves(parts));
  EXPECT_THAT(table.Leaves(whole), SizeIs(2));
}

TEST(AxisTable, FindsTheCommonRefinement) {
  AxisTable table;
  const Atoms left = Join({table.New(4), table.New(6)});
  const Atoms right = Join({table.New(8), table.New(3)});
  ASSERT_THAT(table.Unify(left, right), IsOk());
  std::vector<Dim> extents;
  for (const Atom atom : table.Leaves(left)) extents.push_back(table.extent(atom));
  EXPECT_THAT(extents, ElementsAre(Dim(4), Dim(2), Dim(3)));
}

TEST(AxisTable, SplitsSymbolicExtents) {
  AxisTable table;
  const Dim n = Dim::Symbol("n");
  const Atoms whole = table.New(n * 64);
  ASSERT_THAT(table.Unify(whole, Join({table.New(n), table.New(64)})), IsOk());
  EXPECT_THAT(table.Leaves(whole), SizeIs(2));
}

TEST(AxisTable, LaterJoinsReachBothSides) {
  AxisTable table;
  const Atoms a = table.New(12), b = table.New(12), c = table.New(12);
  ASSERT_THAT(table.Unify(a, b), IsOk());
  ASSERT_THAT(table.Unify(b, c), IsOk());
  ASSERT_THAT(table.Unify(c, Join({table.New(2), table.New(6)})), IsOk());
  EXPECT_THAT(table.Leaves(a), SizeIs(2));
  EXPECT_EQ(table.Leaves(a), table.Leaves(c));
}

TEST(AxisTable, RefusesExtentsThatDoNotDivide) {
  AxisTable table;
  const absl::Status status =
      table.Unify(Join({table.New(4), table.New(9)}), Join({table.New(6), table.New(6)}));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("4 and 6")));
}

// 0 elements are 3 times 0 elements, over and over.
TEST(AxisTable, SplitsAnEmptyAxisOnlyOnce) {
  AxisTable table;
  const Atoms tiled = table.New(0), repeats = table.New(3), operand = table.New(0);
  ASSERT_THAT(table.Unify(tiled, Join({repeats, operand})), IsOk());
  EXPECT_THAT(table.Leaves(tiled), SizeIs(2));
  EXPECT_THAT(table.Unify(tiled, operand),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("3 and 0")));
  EXPECT_THAT(table.Leaves(tiled), SizeIs(2));
}

// Axes of any extents, of which many are 0, made equal in any order: that ends, with as many atoms
// as there are factors, and what has been unified has the same leaves from then on.
TEST(AxisTable, UnifiesRandomAxes) {
  int unified = 0;
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return random() % n; };
    AxisTable table;
    std::vector<Atoms> axes;
    const Dim extents[] = {0, 0, 0, 1, 2, 3, 4, 6, 12, Dim::Symbol("n"), Dim::Symbol("n") * 3};
    for (uint32_t i = 0; i < 8; ++i) axes.push_back(table.New(extents[below(std::size(extents))]));
    const auto run = [&] {
      Atoms atoms;
      for (uint32_t i = 0, count = 1 + below(3); i < count; ++i)
        atoms = Join({atoms, axes[below(8)]});
      return atoms;
    };
    std::vector<std::pair<Atoms, Atoms>> same;
    for (int i = 0; i < 6; ++i) {
      const Atoms a = run(), b = run();
      if (table.Unify(a, b).ok()) same.emplace_back(a, b);
    }
    for (const auto& [a, b] : same) {
      EXPECT_EQ(table.Leaves(a), table.Leaves(b)) << "seed " << seed;
      EXPECT_LT(table.Leaves(a).size(), 1000u) << "seed " << seed;
    }
    unified += static_cast<int>(same.size());
  }
  EXPECT_GT(unified, 3000);
}

}  // namespace
}  // namespace kiln
