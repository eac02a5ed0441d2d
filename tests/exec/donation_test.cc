// SPDX-License-Identifier: Apache-2.0
#include "exec/donation.h"

#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/placement_problem.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;

struct Made {
  explicit Made(const PlacementProblem& p) {
    auto made = PlaceBuffers(p);
    KILN_EXPECT_OK(made);
    if (!made.ok()) return;
    placed = *std::move(made);
    donations = Donations(p, placed);
  }
  bool Any(int32_t in, int32_t out) const { return donations.ReadsEndBeforeWrites(in, out); }
  bool Same(int32_t in, int32_t out) const { return donations.WritesInPlace(in, out); }
  Placement placed;
  Donations donations;
};

TEST(Donations, OneLaunchThatReadsLastAndWritesFirstMayWorkInPlace) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t u = p.Add(Space::kInput), v = p.Add(Space::kOutput), w = p.Add(Space::kOutput);
  const int32_t g = p.Add(Space::kInput), h = p.Add(Space::kOutput);
  p.Do({x}, {y}).in_place = {{0, 0}};
  p.Do({u}, {v}).in_place = {{0, 0}};     // u is read again
  p.Do({u, u}, {w}).in_place = {{0, 0}};  // u is read twice
  p.Do({g}, {h});                         // does not work in place
  const Made made(p);
  EXPECT_TRUE(made.Same(x, y));
  EXPECT_FALSE(made.Any(x, y));
  EXPECT_FALSE(made.Same(u, v));
  EXPECT_FALSE(made.Same(u, w));
  EXPECT_FALSE(made.Same(g, h));
  EXPECT_FALSE(made.Any(g, h));
}

TEST(Donations, WhatHasBeenReadMayBeOverlapped) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), t = p.Add(Space::kTemporary);
  const int32_t z = p.Add(Space::kOutput, 30), unread = p.Add(Space::kInput);
  p.Do({x}, {t});
  p.Do({t}, {y});
  p.Do({t}, {z});
  const Made made(p);
  EXPECT_TRUE(made.Any(x, y));
  EXPECT_TRUE(made.Any(x, z));
  EXPECT_TRUE(made.Any(unread, y));
}

// t = f(x); y = g(x, t), where t lies in y.
TEST(Donations, TemporariesInTheOutputsMemoryCount) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), t = p.Add(Space::kTemporary);
  p.Do({x}, {t});
  p.Do({x, t}, {y}).in_place = {{0, 0}, {1, 0}};
  const Made made(p);
  ASSERT_EQ(made.placed.places[static_cast<size_t>(t)].root, y);
  EXPECT_FALSE(made.Same(x, y));
  EXPECT_FALSE(made.Any(x, y));
}

TEST(Donations, ReadsOfAViewAreReadsOfTheInput) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), v = p.Add(Space::kTemporary);
  const int32_t z = p.Add(Space::kOutput);
  p.Do({x}, {v}, /*view=*/true);
  p.Do({x}, {y}).in_place = {{0, 0}};
  p.Do({v}, {z}).in_place = {{0, 0}};
  const Made made(p);
  EXPECT_FALSE(made.Same(x, y));  // v is read later
  EXPECT_TRUE(made.Same(x, z));
}

TEST(Donations, RepeatedStepsReadUntilTheEndAndWriteFromTheBeginning) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), t = p.Add(Space::kTemporary);
  const int32_t a = p.Add(Space::kInput), z = p.Add(Space::kOutput), s = p.Add(Space::kTemporary);
  p.Do({a}, {s});
  p.Do({x}, {t});
  p.Do({t}, {y}).in_place = {{0, 0}};
  p.Do({s}, {z});
  p.repeats = {{1, 3}};
  const Made made(p);
  EXPECT_FALSE(made.Any(x, y));  // part 2 of x is read after part 1 of y is written
  EXPECT_FALSE(made.Same(x, y));
  EXPECT_TRUE(made.Any(a, y));
  EXPECT_TRUE(made.Any(x, z));
}

TEST(Donations, AStepThatIsRepeatedAloneWorksInPlaceOfNothing) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  p.Do({x}, {y}).in_place = {{0, 0}};
  EXPECT_TRUE(Made(p).Same(x, y));
  p.repeats = {{0, 1, 2}};
  EXPECT_FALSE(Made(p).Same(x, y));
}

}  // namespace
}  // namespace kiln
