// SPDX-License-Identifier: Apache-2.0
#include "exec/placement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/donation.h"
#include "exec/plan_verifier.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/placement_problem.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using Space = PlacementProblem::Space;

using Problem = HandProblem;

TEST(Placement, TemporariesShareTheArenaOverTime) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary),
                c = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({a}, {b});
  p.Do({b}, {c});
  p.Do({c}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.memory.peak, 256);
  EXPECT_EQ(placed.memory.sum, 384);
  EXPECT_EQ(placed.arena_offset[static_cast<size_t>(a)],
            placed.arena_offset[static_cast<size_t>(c)]);
  EXPECT_EQ(placed.arena_offset[static_cast<size_t>(y)], -1);
}

TEST(Placement, WhatLivesBesideRepeatedStepsLivesThroughoutThem) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary, 50),
                c = p.Add(Space::kTemporary, 50), d = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({a}, {b}).in_place = {{0, 0}};
  p.Do({b}, {c}).in_place = {{0, 0}};
  p.Do({c}, {d});
  p.Do({d}, {y});
  p.repeats = {{1, 4}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  // b and c are one; a, which is read again, and d, which has been written, share with none.
  EXPECT_EQ(placed.places[static_cast<size_t>(c)].root, b);
  EXPECT_EQ(placed.memory.peak, 128 + 64 + 128);
}

// A whole that only the repeated steps read, and whose halves are written before them.
TEST(Placement, PartsThatRepeatedStepsReadAsAWholeLiveThroughoutThem) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t whole = p.Add(Space::kTemporary, 128), low = p.Add(Space::kTemporary, 64),
                high = p.Add(Space::kTemporary, 64), b = p.Add(Space::kTemporary, 64),
                c = p.Add(Space::kTemporary, 128);
  p.fixed = {{low, whole, 0}, {high, whole, 64}};
  p.Do({x}, {low});
  p.Do({x}, {high});
  p.Do({whole}, {b});
  p.Do({b}, {c});
  p.Do({c}, {y});
  p.repeats = {{2, 4}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.memory.peak, 128 + 64 + 128);
}

TEST(Placement, LanesShareNothingAtAnyTime) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), e = p.Add(Space::kTemporary);
  const int32_t b = p.Add(Space::kTemporary, 64), c = p.Add(Space::kTemporary, 128),
                d = p.Add(Space::kTemporary, 192);
  p.Do({x}, {a});
  p.Do({a}, {b});
  p.Do({b}, {c}).scratch = 256;
  p.Do({c}, {d});
  p.Do({d}, {e});
  p.Do({e}, {y});
  p.repeats = {{1, 5, 3}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  // In a lane, steps share memory over time: the second one has 64 + 128 + 256 bytes, the others no
  // more. What lanes share lies beside them.
  EXPECT_EQ(placed.memory.peak, 3 * (64 + 128 + 256) + 128 + 128);
  EXPECT_EQ(placed.arena_step[static_cast<size_t>(a)], 0);
  EXPECT_EQ(placed.scratch_step[2], 64 + 128 + 256);
  std::vector<std::pair<int64_t, int64_t>> lanes(3, {placed.memory.peak, 0});
  const auto add = [&](int64_t offset, int64_t step, int64_t bytes) {
    for (int64_t lane = 0; lane < 3; ++lane) {
      auto& [begin, end] = lanes[static_cast<size_t>(lane)];
      begin = std::min(begin, offset + lane * step);
      end = std::max(end, offset + lane * step + bytes);
    }
  };
  add(placed.scratch_offset[2], placed.scratch_step[2], 256);
  for (const int32_t buffer : {b, c, d}) {
    const auto i = static_cast<size_t>(buffer);
    add(placed.arena_offset[i], placed.arena_step[i], p.buffers[i].bytes);
  }
  std::vector<std::pair<int64_t, int64_t>> all = lanes;
  for (const int32_t buffer : {a, e}) {
    const int64_t offset = placed.arena_offset[static_cast<size_t>(buffer)];
    all.emplace_back(offset, offset + 100);
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].second, all[i].first) << i;
}

TEST(Placement, InPlacePairsTakeTheDyingInput) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary);
  p.Do({x}, {a}).in_place = {{0, 0}};  // refused: an input
  p.Do({a}, {b}).in_place = {{0, 0}};
  p.Do({b, x}, {y});  // no pair: y is elsewhere
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.places[static_cast<size_t>(b)].root, a);
  EXPECT_EQ(placed.places[static_cast<size_t>(a)].root, a);
  EXPECT_EQ(placed.memory.peak, 128);
}

TEST(Placement, InPlaceIsRefusedWhileTheClassIsNeeded) {
  for (const bool through_view : {false, true}) {
    Problem p;
    const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), z = p.Add(Space::kOutput);
    const int32_t a = p.Add(Space::kTemporary), v = p.Add(Space::kTemporary),
                  b = p.Add(Space::kTemporary);
    p.Do({x}, {a});
    p.Do({a}, {v}, /*view=*/true);
    p.Do({v}, {b}).in_place = {{0, 0}};
    p.Do({b}, {z});
    p.Do({through_view ? v : a}, {y});
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
    EXPECT_NE(placed.places[static_cast<size_t>(b)].root,
              placed.places[static_cast<size_t>(a)].root);
  }
}

TEST(Placement, InPlaceIsRefusedWhenTheInputIsReadTwice) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), a = p.Add(Space::kTemporary);
  const int32_t b = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({a, a}, {b}).in_place = {{0, 0}, {1, 0}};
  p.Do({b}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.places[static_cast<size_t>(b)].root, b);
}

TEST(Placement, ViewOfAnInputThatIsAnOutputIsCopied) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  p.Do({x}, {y}, /*view=*/true);
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_TRUE(placed.copies[0]);
}

// What a step makes, and a copy of it into a part of `whole`.
void DoPart(Problem& p, int32_t from, int32_t whole, int64_t begin) {
  PlacementProblem::Access& to = p.Do({from}, {whole}, /*view=*/true).writes[0];
  to.begin = begin;
  to.end = begin + p.buffers[static_cast<size_t>(from)].bytes;
}

TEST(Placement, PartsAreWrittenInTheWhole) {
  for (const Space space : {Space::kTemporary, Space::kOutput}) {
    Problem p;
    const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
    const int32_t a = p.Add(Space::kTemporary, 64), b = p.Add(Space::kTemporary, 64),
                  whole = p.Add(space, 128);
    p.Do({x}, {a});
    DoPart(p, a, whole, 0);
    p.Do({a}, {b});  // reads a where it is
    DoPart(p, b, whole, 64);
    p.Do({whole}, {y});
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
    EXPECT_EQ(placed.places[static_cast<size_t>(a)].root, whole);
    EXPECT_EQ(placed.places[static_cast<size_t>(b)].root, whole);
    EXPECT_EQ(placed.places[static_cast<size_t>(b)].offset, 64);
    EXPECT_FALSE(placed.copies[1] || placed.copies[3]);
    EXPECT_EQ(placed.memory.peak, space == Space::kOutput ? 0 : 128);
    KILN_ASSERT_OK_AND_ASSIGN(const Placement apart, PlaceBuffers(p, /*separate=*/true));
    EXPECT_TRUE(apart.copies[1] && apart.copies[3]);
  }
}

TEST(Placement, PartsAreCopiedWhereTheWholeIsMoreThanParts) {
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    Problem p;
    const int32_t x = p.Add(Space::kInput, 64), y = p.Add(Space::kOutput);
    const int32_t a = p.Add(Space::kTemporary, 64), b = p.Add(Space::kTemporary, 64),
                  whole = p.Add(Space::kTemporary, 192);
    p.Do({x}, {a});
    p.Do({x}, {b});
    if (kind == 0) p.Do({x}, {whole});  // another step writes it
    DoPart(p, a, whole, 0);
    if (kind == 1) p.Do({x}, {a});  // a is written once more
    if (kind == 2)
      p.Do({whole}, {p.Add(Space::kOutput)}).reads[0].end = 64;  // it is read in between
    DoPart(p, kind == 3 ? x : b, whole, kind == 4 ? 32 : 64);    // an input; over the other part
    p.Do({whole, a}, {y}).reads[0].end = 96;
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceInOrder(p));
    const auto root = [&](int32_t part) { return placed.places[static_cast<size_t>(part)].root; };
    EXPECT_EQ(root(a) == whole, kind == 3);
    EXPECT_EQ(root(b) == whole, kind == 1);
    KILN_EXPECT_OK(VerifyPlacement(p, placed));
  }
}

// The whole is large, and what lies between its first part and the last one is, too.
TEST(Placement, PartsAreCopiedWhereThatNeedsLessMemory) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary, 64), b = p.Add(Space::kTemporary, 64),
                c = p.Add(Space::kTemporary, 2048), d = p.Add(Space::kTemporary, 1024),
                whole = p.Add(Space::kTemporary, 64 + 1024);
  p.Do({x}, {a});
  p.Do({a}, {b});
  p.Do({b}, {c});
  p.Do({c}, {d});
  DoPart(p, a, whole, 0);
  DoPart(p, d, whole, 64);
  p.Do({whole}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceInOrder(p));
  EXPECT_EQ(placed.memory.lower_bound, 64 + 2048 + 1024);
  EXPECT_TRUE(placed.copies[4] && placed.copies[5]);
  KILN_EXPECT_OK(VerifyPlacement(p, placed));
}

// In the given order the whole would lie beside c from its first part on. Where c and what is left
// of it come first, no part has to be copied.
TEST(Placement, AnotherOrderMakesCopiesOfPartsNeedless) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary, 64), c = p.Add(Space::kTemporary, 4096),
                s = p.Add(Space::kTemporary, 64), d = p.Add(Space::kTemporary, 1024),
                e = p.Add(Space::kTemporary, 1024),
                whole = p.Add(Space::kTemporary, 64 + 1024 + 1024);
  p.Do({x}, {a});
  p.Do({x}, {c});
  p.Do({c}, {s});
  p.Do({s}, {d});
  p.Do({x}, {e});
  DoPart(p, a, whole, 0);
  DoPart(p, d, whole, 64);
  DoPart(p, e, whole, 64 + 1024);
  p.Do({whole}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement in_order, PlaceInOrder(p));
  EXPECT_TRUE(in_order.copies[5] && in_order.copies[6] && in_order.copies[7]);
  EXPECT_EQ(in_order.memory.lower_bound, 2 * (64 + 1024 + 1024));
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_FALSE(placed.copies[5] || placed.copies[6] || placed.copies[7]);
  EXPECT_EQ(placed.memory.lower_bound, 4096 + 64);
  KILN_EXPECT_OK(VerifyPlacement(p, placed));
}

// A row of a large value that is needed for long.
TEST(Placement, ViewsOfPartsAreCopiedWhereThatNeedsLessMemory) {
  for (const bool other : {false, true}) {
    Problem p;
    const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
    const int32_t a = p.Add(Space::kTemporary, 1024), row = p.Add(Space::kTemporary, 64),
                  b = p.Add(Space::kTemporary, 4096), c = p.Add(Space::kTemporary, 4096);
    p.Do({x}, {a});
    PlacementProblem::Access& from = p.Do({a}, {row}, /*view=*/true).reads[0];
    from.begin = 64;
    from.end = 128;
    p.Do({x}, {b});
    p.Do({b}, {c});
    p.Do(other ? std::vector<int32_t>{c, row, a} : std::vector<int32_t>{c, row}, {y});
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceInOrder(p));
    EXPECT_EQ(placed.copies[1], !other);  // where all of it is needed as long, it is a view
    EXPECT_EQ(placed.memory.lower_bound, (other ? 1024 : 64) + 2 * 4096);
    KILN_EXPECT_OK(VerifyPlacement(p, placed));
  }
}

// y = x - g, the update of a state: y may be x's memory if g is not there before.
TEST(Placement, OutputsStayFreeForInputsThatMayBeDonated) {
  for (const int64_t other : {64, 128}) {
    Problem p;
    const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), z = p.Add(Space::kOutput);
    const int32_t g = p.Add(Space::kTemporary), h = p.Add(Space::kTemporary, other);
    p.Do({x}, {h});
    p.Do({h}, {z});
    p.Do({x}, {g});
    p.Do({x, g}, {y}).in_place = {{0, 0}, {1, 0}};
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
    // Where g would make the arena larger, it lies in y.
    EXPECT_EQ(placed.places[static_cast<size_t>(g)].root, other == 128 ? g : y);
    EXPECT_EQ(Donations(p, placed).WritesInPlace(x, y), other == 128);
    KILN_EXPECT_OK(VerifyPlacement(p, placed));
  }
}

TEST(Placement, TheBoundOfLanesIsWhatTheyNeedAtOnce) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  // Of five that are alive two at a time, some plans of a lane need more than the bound.
  std::vector<int32_t> inner;
  for (const int64_t bytes : {64, 192, 128, 64, 128})
    inner.push_back(p.Add(Space::kTemporary, bytes));
  const int32_t a = p.Add(Space::kTemporary), e = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({a}, {inner[0]});
  for (size_t i = 1; i < inner.size(); ++i) p.Do({inner[i - 1]}, {inner[i]});
  p.Do({inner.back()}, {e});
  p.Do({e}, {y});
  p.repeats = {{1, 7, 2}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.memory.lower_bound, 2 * (192 + 128) + 128 + 128);
  EXPECT_EQ(placed.memory.sum, 2 * (64 + 192 + 128 + 64 + 128) + 128 + 128);
}

TEST(Placement, ScratchLivesForItsStep) {
  Problem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), a = p.Add(Space::kTemporary);
  p.Do({x}, {a}).scratch = 1000;
  p.Do({a}, {y}).scratch = 1000;
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.memory.peak, 1024 + 128);
  EXPECT_GE(placed.scratch_offset[1], 0);
}

TEST(Placement, RefusesWhatCannotBeRight) {
  const auto expect = [](const Problem& p, const char* text) {
    EXPECT_THAT(PlaceBuffers(p), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  Problem unwritten;
  const int32_t y = unwritten.Add(Space::kOutput), t = unwritten.Add(Space::kTemporary);
  unwritten.Do({t}, {y});
  expect(unwritten, "before anything wrote it");
  Problem constant;
  const int32_t c = constant.Add(Space::kConstant), x = constant.Add(Space::kInput);
  constant.Do({x}, {c});
  expect(constant, "lies in an input or constant");
  Problem same;
  const int32_t a = same.Add(Space::kTemporary), in = same.Add(Space::kInput);
  same.Do({in}, {a});
  same.Do({a}, {a});
  expect(same, "where it writes");
  Problem silent;
  silent.Add(Space::kOutput);
  expect(silent, "nothing writes");
  Problem cycle;
  const int32_t p0 = cycle.Add(Space::kTemporary), p1 = cycle.Add(Space::kTemporary);
  cycle.fixed = {{p0, p1, 0}, {p1, p0, 0}};
  expect(cycle, "cannot lie at");
  Problem outside;
  const int32_t small = outside.Add(Space::kTemporary, 10),
                large = outside.Add(Space::kTemporary, 100);
  outside.fixed = {{large, small, 0}};
  expect(outside, "cannot lie at");
}

TEST(Placement, LongChainsOfViewsAreCheap) {
  Problem p;
  int32_t last = p.Add(Space::kInput);
  for (int i = 0; i < 20000; ++i) {
    const int32_t next = p.Add(Space::kTemporary);
    p.Do({last}, {next}, /*view=*/true);
    last = next;
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  EXPECT_EQ(placed.places.back().root, 0);
  EXPECT_EQ(placed.memory.peak, 0);
}

}  // namespace
}  // namespace kiln
