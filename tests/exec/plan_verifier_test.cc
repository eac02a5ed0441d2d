// SPDX-License-Identifier: Apache-2.0
// The verifier of bytes: it passes what the placer makes, refuses plans that were broken by hand,
// and over random programs every plan that it passes gives the right bytes on real memory.
// KILN_PLACEMENTS random programs from KILN_PLACEMENT_SEED on.
#include "exec/plan_verifier.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/donation.h"
#include "exec/tag_map.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/placement_problem.h"
#include "tests/exec/random_placement.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using Space = PlacementProblem::Space;

auto Refuses(const char* text) { return StatusIs(absl::StatusCode::kInternal, HasSubstr(text)); }

TEST(TagMap, HoldsWhatWasWrittenLast) {
  TagMap map;
  map.Set(0, 64, {7, 0});
  map.Set(16, 32, {8, 100});
  EXPECT_EQ(map.At(15), (TagMap::Tag{7, 15}));
  EXPECT_EQ(map.At(20), (TagMap::Tag{8, 104}));
  EXPECT_EQ(map.At(40), (TagMap::Tag{7, 40}));
  EXPECT_EQ(map.At(64), (TagMap::Tag{0, 0}));
  EXPECT_EQ(map.PieceAt(20, 1000).end, 32);
  map.Set(10, 50, {9, 0});
  EXPECT_EQ(map.At(9), (TagMap::Tag{7, 9}));
  EXPECT_EQ(map.At(49), (TagMap::Tag{9, 39}));
  EXPECT_EQ(map.At(50), (TagMap::Tag{7, 50}));
}

// x -> a -> b, both read by the last step that writes y; then c lies where a was.
struct Chain : HandProblem {
  int32_t x = Add(Space::kInput), y = Add(Space::kOutput), z = Add(Space::kOutput);
  int32_t a = Add(Space::kTemporary), b = Add(Space::kTemporary), c = Add(Space::kTemporary);
  Placement placed;
  Chain() {
    Do({x}, {a});
    Do({a}, {b});
    Do({a, b}, {y});
    Do({b}, {c}).scratch = 64;
    Do({c}, {z});
    placed = *PlaceBuffers(*this);
  }
  int64_t& offset(int32_t buffer) { return placed.arena_offset[static_cast<size_t>(buffer)]; }
};

TEST(VerifyPlacement, PassesWhatThePlacerMakes) {
  const Chain p;
  KILN_EXPECT_OK(VerifyPlacement(p, p.placed));
}

TEST(VerifyPlacement, RefusesShiftedOffsets) {
  Chain p;
  p.offset(p.b) = p.offset(p.a);
  EXPECT_THAT(VerifyPlacement(p, p.placed), Refuses("reads buffer 3 where it writes buffer 4"));
  Chain half;
  half.offset(half.b) = half.offset(half.a) + 64;
  EXPECT_THAT(VerifyPlacement(half, half.placed), Refuses("where it writes"));
  Chain beyond;
  beyond.offset(beyond.b) = beyond.placed.memory.peak;
  EXPECT_THAT(VerifyPlacement(beyond, beyond.placed), Refuses("beyond the arena"));
  Chain odd;
  odd.offset(odd.b) += 4;
  EXPECT_THAT(VerifyPlacement(odd, odd.placed), Refuses("of the arena"));
}

TEST(VerifyPlacement, RefusesAWriteThatHitsWhatIsReadLater) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({x}, {b});
  p.Do({a, b}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(Placement placed, PlaceBuffers(p));
  placed.arena_offset[static_cast<size_t>(b)] = placed.arena_offset[static_cast<size_t>(a)];
  EXPECT_THAT(VerifyPlacement(p, placed),
              Refuses("buffer 2, byte 0: holds what step 1 wrote (byte 0), not what step 0 wrote"));
}

TEST(VerifyPlacement, RefusesStepsInAnotherOrder) {
  Chain p;
  std::swap(p.steps[1], p.steps[2]);
  EXPECT_THAT(VerifyPlacement(p, p.placed), Refuses("read before anything wrote it"));
  HandProblem q;
  const int32_t x = q.Add(Space::kInput), y = q.Add(Space::kOutput), z = q.Add(Space::kOutput);
  const int32_t a = q.Add(Space::kTemporary), b = q.Add(Space::kTemporary);
  q.Do({x}, {a});
  q.Do({a}, {z});
  q.Do({a}, {b}).in_place = {{0, 0}};
  q.Do({b}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(q));
  ASSERT_EQ(placed.places[static_cast<size_t>(b)].root, a);
  KILN_EXPECT_OK(VerifyPlacement(q, placed));
  std::swap(q.steps[1], q.steps[2]);
  EXPECT_THAT(VerifyPlacement(q, placed), Refuses("holds what step 1 wrote"));
}

TEST(VerifyPlacement, RefusesOrdersThatAreNotThePrograms) {
  Chain p;
  std::swap(p.placed.order[2], p.placed.order[3]);  // both only read b
  for (const int32_t buffer : {p.a, p.b, p.c}) p.offset(buffer) = 1024 * buffer;
  p.placed.scratch_offset[3] = 512;
  p.placed.memory.peak = 8192;
  KILN_EXPECT_OK(VerifyPlacement(p, p.placed));
  std::swap(p.placed.order[0], p.placed.order[1]);
  EXPECT_THAT(VerifyPlacement(p, p.placed), Refuses("steps 0 and 1 run in the wrong order"));
  p.placed.order[0] = p.placed.order[1];
  EXPECT_THAT(VerifyPlacement(p, p.placed), Refuses("its order has not each step once"));
  p.placed.order.pop_back();
  EXPECT_THAT(VerifyPlacement(p, p.placed), Refuses("it is not one of this program"));
  Chain repeated;
  repeated.repeats = {{3, 4}};
  std::swap(repeated.placed.order[2], repeated.placed.order[3]);
  EXPECT_THAT(VerifyPlacement(repeated, repeated.placed),
              Refuses("step 2 runs at 3, across repeated steps"));
}

// Two steps write the columns of a; between them another one writes b, which lies in a.
TEST(VerifyPlacement, RefusesAWriteBetweenThoseOfColumns) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), z = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary);
  p.Do({x}, {b});
  p.Do({b}, {z});
  p.Do({x}, {a}).writes[0].dense = false;
  p.Do({x}, {a}).writes[0].dense = false;
  p.Do({a}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(Placement placed, PlaceBuffers(p));
  ASSERT_EQ(placed.arena_offset[static_cast<size_t>(a)],
            placed.arena_offset[static_cast<size_t>(b)]);
  KILN_EXPECT_OK(VerifyPlacement(p, placed));
  placed.order = {2, 0, 3, 1, 4};
  EXPECT_THAT(VerifyPlacement(p, placed),
              Refuses("buffer 3, byte 0: holds what step 0 wrote (byte 0), not what step 2 wrote"));
}

TEST(VerifyPlacement, RefusesPartsThatLieElsewhere) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary, 64), whole = p.Add(Space::kTemporary, 128);
  p.Do({x}, {a});
  PlacementProblem::Access& to = p.Do({a}, {whole}, /*view=*/true).writes[0];
  to.end = 64;
  p.Do({whole}, {y}).reads[0].end = 64;
  KILN_ASSERT_OK_AND_ASSIGN(Placement placed, PlaceBuffers(p));
  ASSERT_EQ(placed.places[static_cast<size_t>(a)].root, whole);
  KILN_EXPECT_OK(VerifyPlacement(p, placed));
  placed.places[static_cast<size_t>(a)].offset = 64;
  EXPECT_THAT(VerifyPlacement(p, placed), Refuses("buffer 3, a view of buffer 2, lies elsewhere"));
}

TEST(VerifyPlacement, RefusesInPlaceWithoutAPair) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary);
  p.Do({x}, {a});
  p.Do({a}, {b}).in_place = {{0, 0}};
  p.Do({b, x}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  ASSERT_EQ(placed.places[static_cast<size_t>(b)].root, a);
  for (int kind = 0; kind < 4; ++kind) {
    HandProblem q = p;
    PlacementProblem::Step& step = q.steps[1];
    if (kind == 0) step.in_place.clear();
    if (kind == 1) step.in_place = {{0, 1}};
    if (kind == 2) step.reads[0].dense = false;
    if (kind == 3) step.reads.push_back(step.reads[0]);  // one more operand lies there
    EXPECT_THAT(VerifyPlacement(q, placed), Refuses("where it writes")) << kind;
  }
  HandProblem later = p;
  later.steps[2].reads[1].buffer = a;
  EXPECT_THAT(VerifyPlacement(later, placed), Refuses("holds what step 1 wrote"));
}

TEST(VerifyPlacement, RefusesOutputsOverInputsThatAreReadLater) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput), t = p.Add(Space::kTemporary);
  const int32_t u = p.Add(Space::kInput);
  p.Do({x}, {t});
  p.Do({x, t, u}, {y}).in_place = {{0, 0}, {1, 0}, {2, 0}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  std::vector<int64_t> at(p.buffers.size());
  const auto verify = [&](int64_t x_at, int64_t u_at, int64_t y_at) {
    at[static_cast<size_t>(x)] = x_at;
    at[static_cast<size_t>(u)] = u_at;
    at[static_cast<size_t>(y)] = y_at;
    return VerifyPlacement(p, placed, at);
  };
  KILN_EXPECT_OK(verify(0, 400, 800));
  KILN_EXPECT_OK(verify(400, 400, 800));  // inputs may share
  EXPECT_THAT(verify(0, 400, 0), Refuses("reads buffer 0 where it writes buffer 2"));
  EXPECT_THAT(verify(0, 400, 350), Refuses("holds what step 0 wrote"));
  EXPECT_THAT(verify(0, 400, 400), Refuses("holds what step 0 wrote"));
}

TEST(VerifyPlacement, RefusesScratchInOperandsAndViewsElsewhere) {
  Chain p;
  p.placed.scratch_offset[3] = p.offset(p.b);
  EXPECT_THAT(VerifyPlacement(p, p.placed), Refuses("its scratch lies in one of its operands"));
  HandProblem q;
  const int32_t x = q.Add(Space::kInput), y = q.Add(Space::kOutput), v = q.Add(Space::kTemporary);
  q.Do({x}, {v}, /*view=*/true);
  q.Do({v}, {y});
  KILN_ASSERT_OK_AND_ASSIGN(Placement placed, PlaceBuffers(q));
  placed.places[static_cast<size_t>(v)].root = y;
  EXPECT_THAT(VerifyPlacement(q, placed), Refuses("lies elsewhere"));
  placed.copies[0] = true;  // then it is copied into y and read where it is written
  EXPECT_THAT(VerifyPlacement(q, placed), Refuses("where it writes"));
}

TEST(VerifyPlacement, RefusesLanesThatShareAndWhatIsOverwrittenBetweenParts) {
  HandProblem p;
  const int32_t x = p.Add(Space::kInput), y = p.Add(Space::kOutput);
  const int32_t a = p.Add(Space::kTemporary), b = p.Add(Space::kTemporary, 64),
                c = p.Add(Space::kTemporary, 64);
  p.Do({x}, {a});
  p.Do({a}, {b});
  p.Do({b}, {c}).scratch = 64;
  p.Do({c}, {y});
  p.repeats = {{1, 4, 3}};
  KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(p));
  KILN_EXPECT_OK(VerifyPlacement(p, placed));
  Placement near = placed;
  for (int64_t& step : near.arena_step) step -= step == 0 ? 0 : 64;
  for (int64_t& step : near.scratch_step) step -= step == 0 ? 0 : 64;
  EXPECT_THAT(VerifyPlacement(p, near), Refuses("share memory"));
  Placement none = placed;
  none.arena_step[static_cast<size_t>(b)] = 0;
  EXPECT_THAT(VerifyPlacement(p, none), Refuses("from a lane to the next"));
  // In the first part nothing reads a after c has been written.
  HandProblem one = p;
  one.repeats[0].lanes = 1;
  KILN_ASSERT_OK_AND_ASSIGN(Placement over, PlaceBuffers(one));
  KILN_EXPECT_OK(VerifyPlacement(one, over));
  over.arena_offset[static_cast<size_t>(c)] = over.arena_offset[static_cast<size_t>(a)];
  EXPECT_THAT(VerifyPlacement(one, over), Refuses("buffer 2, byte 0: holds what step 2 wrote"));
}

// One change of the kinds that a defect of the placer would make.
void Break(const PlacementProblem& p, std::mt19937_64& random, Placement& placed) {
  const auto any = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const size_t b = any(p.buffers.size()), other = any(p.buffers.size()), t = any(p.steps.size());
  const int64_t shift = 64 * (1 + static_cast<int64_t>(any(2))) * (any(2) == 0 ? 1 : -1);
  switch (any(8)) {
    case 0:
      placed.arena_offset[b] += shift;
      break;
    case 1:
      std::swap(placed.arena_offset[b], placed.arena_offset[other]);
      break;
    case 2:
      placed.places[b] = placed.places[other];
      break;
    case 3:
      if (p.steps[t].view) placed.copies[t] = !placed.copies[t];
      break;
    case 4:
      if (p.steps[t].scratch > 0) placed.scratch_offset[t] += shift;
      break;
    case 5:
      if (placed.arena_step[b] > 0) placed.arena_step[b] += shift;
      break;
    case 6:
      std::swap(placed.order[t], placed.order[any(p.steps.size())]);
      break;
    default:
      if (!p.steps[t].view)
        placed.places[static_cast<size_t>(p.steps[t].writes[0].buffer)] =
            placed.places[static_cast<size_t>(p.steps[t].reads[0].buffer)];
  }
}

// Random inputs and outputs over each other, and what the executor does about it: inputs that are
// not known to be read before are copied, that is, lie apart. Returns how many pairs share memory.
int BindOver(const RandomPlacement& program, const Donations& donations, std::mt19937_64& random,
             std::vector<int64_t>& addresses) {
  const std::vector<int32_t> inputs = program.BuffersOf(Space::kInput);
  int kept = 0;
  for (const int32_t out : program.BuffersOf(Space::kOutput)) {
    const int32_t in = inputs[random() % inputs.size()];
    const auto o = static_cast<size_t>(out), i = static_cast<size_t>(in);
    const int64_t shift = random() % 3 == 0 ? kItem * static_cast<int64_t>(random() % 4) : 0;
    const int64_t before = addresses[o];
    addresses[o] = addresses[i] + shift;
    const auto end = [&](size_t b) { return addresses[b] + program.problem.buffers[b].bytes; };
    bool right = true;
    for (const int32_t other : program.BuffersOf(Space::kOutput)) {
      const auto k = static_cast<size_t>(other);
      right &= k == o || end(k) <= addresses[o] || end(o) <= addresses[k];
    }
    bool in_place = false;
    for (const int32_t input : inputs) {
      const auto k = static_cast<size_t>(input);
      if (end(k) <= addresses[o] || end(o) <= addresses[k]) continue;
      if (donations.ReadsEndBeforeWrites(input, out)) continue;
      right &= addresses[k] == addresses[o] && end(k) == end(o) && !in_place &&
               donations.WritesInPlace(input, out);
      in_place = true;
    }
    kept += right ? 1 : 0;
    if (!right) addresses[o] = before;
  }
  return kept;
}

// What the placer decided: parts that lie in their whole, parts that are copied, other orders.
struct Seen {
  int parts = 0, copied = 0, reordered = 0;
  void Note(const PlacementProblem& p, const Placement& placed) {
    reordered += std::is_sorted(placed.order.begin(), placed.order.end()) ? 0 : 1;
    for (size_t t = 0; t < p.steps.size(); ++t) {
      if (!p.steps[t].view) continue;
      const PlacementProblem::Access& to = p.steps[t].writes[0];
      if (to.end - to.begin == p.buffers[static_cast<size_t>(to.buffer)].bytes) continue;
      ++(placed.copies[t] ? copied : parts);
    }
  }
};

class RandomPlacements : public testing::TestWithParam<int> {};

TEST_P(RandomPlacements, WhatTheVerifierPassesIsRightOnRealMemory) {
  const uint64_t seed = FromEnvironment("KILN_PLACEMENT_SEED", 1);
  const uint64_t count = FromEnvironment("KILN_PLACEMENTS", 1000);
  int donated = 0, wrong = 0, passed = 0;
  Seen seen;
  for (uint64_t k = static_cast<uint64_t>(GetParam()); k < count; k += 4) {
    SCOPED_TRACE(absl::StrCat("KILN_PLACEMENT_SEED=", seed + k, " KILN_PLACEMENTS=1"));
    const RandomPlacement program = MakeRandomPlacement(seed + k);
    std::mt19937_64 random(seed + k);
    KILN_ASSERT_OK_AND_ASSIGN(const Placement placed, PlaceBuffers(program.problem));
    KILN_ASSERT_OK(VerifyPlacement(program.problem, placed));
    seen.Note(program.problem, placed);
    const std::vector<uint32_t> want = RunApart(program);
    const std::vector<int64_t> apart = ApartAddresses(program.problem);
    ASSERT_EQ(RunPlaced(program, placed, apart, k), want);
    std::vector<int64_t> over = apart;
    donated += BindOver(program, Donations(program.problem, placed), random, over);
    KILN_ASSERT_OK(VerifyPlacement(program.problem, placed, over));
    ASSERT_EQ(RunPlaced(program, placed, over, k), want);
    for (int i = 0; i < 8; ++i) {
      Placement broken = placed;
      Break(program.problem, random, broken);
      std::vector<int64_t> at = apart;
      if (i % 4 == 3) {  // an output over an input, right or not
        const std::vector<int32_t> inputs = program.BuffersOf(Space::kInput),
                                   outputs = program.BuffersOf(Space::kOutput);
        broken = placed;
        at[static_cast<size_t>(outputs[random() % outputs.size()])] =
            at[static_cast<size_t>(inputs[random() % inputs.size()])];
      }
      if (!VerifyPlacement(program.problem, broken, at).ok()) {
        ++wrong;
        continue;
      }
      ++passed;
      ASSERT_EQ(RunPlaced(program, broken, at, k), want) << "mutation " << i;
    }
  }
  if (count < 100) return;
  // The judge has seen enough of each.
  EXPECT_GT(donated, static_cast<int>(count / 40));
  EXPECT_GT(wrong, static_cast<int>(count / 10));
  EXPECT_GT(passed, static_cast<int>(count / 40));
  EXPECT_GT(seen.parts, static_cast<int>(count / 40));
  EXPECT_GT(seen.copied, static_cast<int>(count / 40));
  EXPECT_GT(seen.reordered, static_cast<int>(count / 40));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlacements, testing::Range(0, 4));

}  // namespace
}  // namespace kiln
