// SPDX-License-Identifier: Apache-2.0
#include "schedule/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/cpu_features.h"
#include "kernel/text.h"
#include "schedule/analysis.h"
#include "schedule/cpu/templates.h"
#include "schedule/device.h"
#include "schedule/reductions.h"
#include "tests/base/environment.h"
#include "tests/kernel/random.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Kernel Parse(const std::string& text) {
  const auto kernel = ParseKernel("kernel v1 math 1\n" + text);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  return kernel.ok() ? *kernel : Kernel();
}

constexpr char kSoftmax[] = R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [a]    = reduce max over b (in0[a, b])
s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))
s2 : f32 [a]    = reduce add over b (s1[a, b])
out  0 f32 [a, b] dense = div(s1[a, b], s2[a])
)";

constexpr char kColumnSum[] =
    "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = reduce add over a (in0[a, b])\n"
    "out 0 f32 [b] dense = s0[b]\n";

SizeClass Unknown(const Kernel& kernel) {
  return {std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
}

const Machine& MachineFor(IsaLevel isa) { return ShippedMachine(CpuTarget(isa)); }

Schedule Chosen(const Kernel& kernel, const SizeClass& sizes, IsaLevel isa = IsaLevel::kV4) {
  return ChooseSchedule(kernel, sizes, MachineFor(isa));
}

TEST(Choose, SomeTemplateAcceptsWhateverTheGrammarSays) {
  EXPECT_TRUE(AcceptsKernel(Parse("dims\nin 0 f32 [] dense\nout 0 f32 [] dense = neg(in0[])\n"),
                            HostTarget()));
  for (uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_TRUE(AcceptsKernel(RandomKernel(seed), HostTarget())) << seed;
}

TEST(Choose, SaysWhyNodesDoNotGainByOneKernel) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [] = reduce add over a b (in0[a, b])\nout 0 f32 "
      "[] dense = s0[]\n");
  EXPECT_EQ(ModelOf(DeviceKind::kCpu).fuses(kernel).reason(),
            "element-wise: it has a reduction; rows: a reduction is over another dim than the "
            "innermost; columns: it reduces all dims; rows and columns: no output is over all "
            "dims; streams: a reduction over all dims takes the innermost");
}

// Every candidate can be said, suits its kernel, and has a price; they come cheapest first.
TEST(Choose, CandidatesAreSound) {
  const uint64_t kernels = FromEnvironment("KILN_RANDOM_KERNELS", 300);
  double offered = 0;
  for (uint64_t seed = 0; seed < kernels; ++seed) {
    const Kernel kernel = RandomKernel(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    for (const int64_t bound : {kUnbounded, int64_t{0}, int64_t{1}, int64_t{7}, int64_t{5000}}) {
      const SizeClass sizes{std::vector<int64_t>(kernel.dims.size(), bound)};
      const IsaLevel isa = seed % 2 == 0 ? IsaLevel::kV4 : IsaLevel::kV3;
      const std::vector<Candidate> candidates = CandidatesFor(kernel, sizes, MachineFor(isa));
      ASSERT_FALSE(candidates.empty());
      EXPECT_LE(candidates.size(), 40u);
      offered += static_cast<double>(candidates.size()) / 5;
      std::set<std::string> texts;
      for (const Candidate& candidate : candidates) {
        const std::string text = candidate.schedule.ToString();
        EXPECT_TRUE(texts.insert(text).second) << text;
        const absl::StatusOr<Schedule> again = Schedule::Parse(text, DeviceKind::kCpu);
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(again->ToString(), text);
        EXPECT_TRUE(candidate.schedule.CheckFor(kernel).ok())
            << candidate.schedule.CheckFor(kernel);
        EXPECT_TRUE(std::isfinite(candidate.ns) && candidate.ns > 0) << text;
      }
      EXPECT_TRUE(std::is_sorted(candidates.begin(), candidates.end(),
                                 [](const auto& a, const auto& b) { return a.ns < b.ns; }));
      EXPECT_EQ(ChooseSchedule(kernel, sizes, MachineFor(isa)), candidates.front().schedule);
    }
  }
  EXPECT_GT(offered / static_cast<double>(kernels), 1.5);
}

// Each template is the cheapest for some kernel: else it had better go.
TEST(Choose, EachTemplateHasItsKernels) {
  struct Row {
    const char* of;
    const char* text;
    std::vector<int64_t> extents;
  };
  const Row kRows[] = {
      {"pointwise", "dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n", {1 << 20}},
      {"fissioned",
       "dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = tanh(exp(log(erf(in0[a]))))\n",
       {1 << 20}},
      {"full_unroll",
       "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\n"
       "out 0 f32 [a, b] dense = mul(in0[a, b], in1[a])\n",
       {100000, 3}},
      {"packed_blocks",
       "dims a b c\nin 0 f32 [a, c, b] dense\nout 0 f32 [a, b, c] dense = neg(in0[a, c, b])\n",
       {43690, 2, 3}},
      {"memory_order",
       "dims a b c\nin 0 f32 [b, a, c] dense\nout 0 f32 [a, b, c] dense = neg(in0[b, a, c])\n",
       {3, 50000, 28}},
      {"segmented",
       "dims a b\nsizes n0\nin 0 f32 [a, n0] dense\nin 1 f32 [a, n0] dense\nout 0 f32 [a, b] "
       "dense = guard(lt(index(b), extent(n0)), in0[a, b], guard(le(extent(n0), index(b)), in1[a, "
       "b-|n0|], 0))\n",
       {1000, 512, 256}},
      {"transpose",
       "dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\n",
       {1000, 1000}},
      {"deinterleave",
       "dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\n",
       {3, 50000}},
      {"row_reduction", kSoftmax, {1000, 768}},
      {"outer_vectorized", kSoftmax, {50000, 11}},
      {"outer_reduction",
       "dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [a, c] = reduce max over b (in0[a, b, c])\n"
       "out 0 f32 [a, b, c] dense = sub(in0[a, b, c], s0[a, c])\n",
       {64, 50, 64}},
      {"row_and_column",
       "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a, b] dense\n"
       "s0 : f32 [a] = reduce add over b (mul(in0[a, b], in1[a, b]))\n"
       "s1 : f32 [b] = reduce add over a (in0[a, b])\n"
       "out 0 f32 [a, b] dense = sub(in0[a, b], s0[a])\nout 1 f32 [b] dense = s1[b]\n",
       {1000, 768}},
      {"staged", kColumnSum, {4096, 4096}},
      {"scatter",
       "dims a b\nsizes n0\nin 0 i64 [a] dense\nin 1 f32 [a, b] dense\n"
       "out 0 f32 [n0, b] dense = add_at[[in0[a]], b](in1[a, b])\n",
       {4096, 768, 30000}},
  };
  std::set<std::string> seen;
  for (const Row& row : kRows) {
    seen.insert(row.of);
    for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
      const Kernel kernel = Parse(row.text);
      std::string offered;
      for (const Candidate& candidate : CandidatesFor(kernel, {row.extents}, MachineFor(isa)))
        offered += std::to_string(candidate.ns) + " " + candidate.schedule.ToString() + "\n";
      EXPECT_STREQ(Chosen(kernel, {row.extents}, isa).name(), row.of) << Name(isa) << "\n"
                                                                      << offered;
    }
  }
  for (const Template* of : ModelOf(DeviceKind::kCpu).templates())
    EXPECT_EQ(seen.count(of->name), 1u) << of->name;
}

TEST(Passes, AreReductionsOverTheSameDimsThatNeedNothingOfEachOther) {
  const auto passes = [](const std::string& stages, const std::vector<int64_t>& stored = {}) {
    const Kernel kernel = Parse("dims a b c\nin 0 f32 [a, b, c] dense\nin 1 f32 [a, b, c] dense\n" +
                                stages + "out 0 f32 [a, b, c] dense = in0[a, b, c]\n");
    return PassesOf(kernel, AsFlags(stored, kernel.stages.size()));
  };
  using Stages = std::vector<size_t>;
  const std::string sums =
      "s0 : f32 [c] = reduce add over a b (in0[a, b, c])\n"
      "s1 : f32 [a, b, c] = sub(in1[a, b, c], 1)\n"
      "s2 : f32 [c] = reduce max over a b (s1[a, b, c])\n";
  EXPECT_EQ(passes(sums), (Stages{0, 1, 0}));
  EXPECT_EQ(passes(sums, {1}), (Stages{0, 1, 2}));  // s1 is made after s0
  const std::string mean =
      "s0 : f32 [c] = reduce add over a b (in0[a, b, c])\n"
      "s1 : f32 [a, b, c] = sub(in0[a, b, c], s0[c])\n"
      "s2 : f32 [c] = reduce add over a b (mul(s1[a, b, c], s1[a, b, c]))\n"
      "s3 : f32 [c] = reduce add over a b (in1[a, b, c])\n"
      "s4 : f32 [c] = reduce add over a b (mul(in1[a, b, c], s1[a, b, c]))\n";
  EXPECT_EQ(passes(mean), (Stages{0, 1, 2, 0, 2}));
  const std::string apart =
      "s0 : f32 [c] = reduce add over a b (in0[a, b, c])\n"
      "s1 : f32 [b, c] = reduce add over a (in1[a, b, c])\n"
      "s2 : f32 [a] = reduce add over b c (in0[a, b, c])\n"  // by lanes
      "s3 : f32 [a] = reduce add over b c (in1[a, b, c])\n";
  EXPECT_EQ(passes(apart), (Stages{0, 1, 2, 3}));
}

constexpr char kBatchNormBackward[] = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
in   2 f32 [b] dense
s0 : f32 [b] = reduce add over a (mul(in0[a, b], sub(in1[a, b], in2[b])))
s1 : f32 [b] = reduce add over a (in0[a, b])
out  0 f32 [a, b] dense = sub(sub(in0[a, b], s0[b]), mul(in1[a, b], s1[b]))
out  1 f32 [b] dense = s0[b]
out  2 f32 [b] dense = s1[b]
)";

// Few columns are few tiles, which few threads share; rows can be shared as finely as one likes.
TEST(Choose, FewLongColumnsAreReducedRowByRow) {
  const Kernel kernel = Parse(kBatchNormBackward);
  for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
    EXPECT_STREQ(Chosen(kernel, {{25088, 64}}, isa).name(), "staged");
    EXPECT_STREQ(Chosen(kernel, {{392, 512}}, isa).name(), "outer_reduction");
  }
}

// Of loops that run one after the other none hides what another moves: rows, or columns, that pass
// through all of them while they are near are faster (Zen 4: 0.05 ms for 0.1, Sapphire Rapids: 2 ms
// for 3).
TEST(Choose, LoopsOverAllHideTheirOwnReadsOnly) {
  const Kernel rows = Parse(R"(dims a b
sizes n0
in   0 f32 [a, b] dense
s0 : f32 [a]    = reduce add over b (in0[a, b])
s1 : f32 [a]    = div(s0[a], cast<f32>(extent(n0)))
s2 : f32 [a, b] = sub(in0[a, b], s1[a])
s3 : f32 [a]    = reduce add over b (mul(s2[a, b], s2[a, b]))
s4 : f32 [a]    = sqrt(div(s3[a], cast<f32>(extent(n0))))
out  0 f32 [a, b] dense = div(s2[a, b], s4[a])
)");
  EXPECT_STREQ(Chosen(rows, {{512, 512, 512}}).name(), "row_reduction");
  const Kernel columns = Parse(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [a, b, c] = sigmoid(in0[a, b, c])
s1 : f32 [a, c]    = reduce max over b (s0[a, b, c])
out  0 f32 [a, b, c] dense = mul(add(s0[a, b, c], s1[a, c]), s1[a, c])
)");
  EXPECT_STREQ(Chosen(columns, {{856, 17, 288}}).name(), "outer_reduction");
}

constexpr char kLayerNormBackward[] = R"(dims a b
sizes n0
in   0 f32 [a, b] dense
in   1 f32 [a] dense
in   2 f32 [a] dense
in   3 f32 [a, b] dense
in   4 f32 [b] dense
s0 : f32 [a, b] = mul(sub(in0[a, b], in1[a]), in2[a])
s1 : f32 [a]    = reduce add over b (mul(s0[a, b], mul(in3[a, b], in4[b])))
s2 : f32 [a]    = div(s1[a], cast<f32>(extent(n0)))
s3 : f32 [a]    = reduce add over b (mul(in3[a, b], in4[b]))
s4 : f32 [a]    = div(s3[a], cast<f32>(extent(n0)))
s5 : f32 [b]    = reduce add over a (mul(s0[a, b], in3[a, b]))
s6 : f32 [b]    = reduce add over a (in3[a, b])
out  0 f32 [a, b] dense = mul(sub(sub(mul(in3[a, b], in4[b]), mul(s0[a, b], s2[a])), s4[a]), in2[a])
out  1 f32 [b] dense = s5[b]
out  2 f32 [b] dense = s6[b]
)";

// A value that two operations make of one element that is read is computed anew, not stored; sums
// of a block of rows go down it in registers.
TEST(Choose, LayerNormBackwardPassesThroughRegisters) {
  const Kernel kernel = Parse(kLayerNormBackward);
  const std::string chosen = Chosen(kernel, {{4096, 768, 768}}).ToString();
  EXPECT_THAT(chosen, HasSubstr("row_and_column"));
  EXPECT_THAT(chosen, HasSubstr("one_vector=1"));
  EXPECT_THAT(chosen, HasSubstr("stored=2,4"));
}

// What is chosen follows the description of the machine, not its name.
TEST(Choose, FollowsTheMachine) {
  Machine machine = MachineFor(IsaLevel::kV4);
  const Kernel kernel = Parse(
      "dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [a, c] = reduce add over b (in0[a, b, c])\n"
      "out 0 f32 [a, b, c] dense = sub(in0[a, b, c], s0[a, c])\n");
  const SizeClass sizes{{64, 1000, 1000}};
  machine.jump_ns = 1000;
  EXPECT_STREQ(ChooseSchedule(kernel, sizes, machine).name(), "staged");
  machine.jump_ns = 1e-3;
  EXPECT_STREQ(ChooseSchedule(kernel, sizes, machine).name(), "outer_reduction");
}

TEST(Choose, PricesOpenClassesAtSeveralExtents) {
  using Extents = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(RepresentativeExtents({{kUnbounded, 768}}),
            (Extents{{16, 768}, {256, 768}, {4096, 768}}));
  EXPECT_EQ(RepresentativeExtents({{30, 50}, {false, true}}), (Extents{{30, 16}, {30, 50}}));
  EXPECT_EQ(RepresentativeExtents({{30, 50}}), (Extents{{30, 50}}));
}

TEST(Choose, RowsOfOneBlockAreAClassOfTheirOwn) {
  const Kernel kernel = Parse(kSoftmax);
  const std::vector<SizeClass> classes = SizeClassesFor(kernel, Unknown(kernel));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].at_most, (std::vector<int64_t>{kUnbounded, 4096}));
  EXPECT_FALSE(classes[0].IsExtent(1));
  EXPECT_EQ(FieldOf(Chosen(kernel, classes[0]), "levels", 0), 1);
  EXPECT_EQ(classes[1].at_most, Unknown(kernel).at_most);
  EXPECT_EQ(FieldOf(Chosen(kernel, classes[1]), "levels", 0), 3);
  EXPECT_EQ(SizeClassesFor(kernel, {{kUnbounded, 768}}).size(), 1u);
}

TEST(Choose, SeveralReducedDimsHaveFourLevelsAtMost) {
  const Kernel two = Parse(
      "dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [c] = reduce add over a b (in0[a, b, c])\n"
      "out 0 f32 [c] dense = s0[c]\n");
  EXPECT_EQ(SizeClassesFor(two, Unknown(two)).back().at_most[0], 1 << 20);
  const Kernel one = Parse(kColumnSum);
  EXPECT_EQ(SizeClassesFor(one, Unknown(one)).back().at_most[0], kUnbounded);
}

TEST(Choose, LevelsCoverTheExtent) {
  EXPECT_EQ(LevelsFor(0, 4096), 1);
  EXPECT_EQ(LevelsFor(4096, 4096), 1);
  EXPECT_EQ(LevelsFor(4097, 4096), 2);
  EXPECT_EQ(LevelsFor(4096 * 4096, 4096), 2);
  EXPECT_EQ(LevelsFor(4096 * 4096 + 1, 4096), 3);
  EXPECT_EQ(LevelsFor(INT32_MAX, 32), 7);
}

// Code of many operations takes few vectors at a time: the time that compiling takes grows faster.
TEST(Choose, LargeExpressionsTakeFewerVectorsAtOnce) {
  const auto lanes = [](int functions) {
    std::string value = "in0[a]";
    for (int i = 0; i < functions; ++i) value = "erf(" + value + ")";
    return LanesFor(Parse("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = " + value + "\n"),
                    MachineFor(IsaLevel::kV4), 4);
  };
  EXPECT_EQ(lanes(1), 64);
  EXPECT_EQ(lanes(4), 64);
  EXPECT_EQ(lanes(12), 32);
  EXPECT_EQ(lanes(20), 16);
}

// Nor does what a launch has one of, however much it is: it is computed before the loops.
TEST(Choose, WhatALaunchHasOneOfIsNoWorkOfItsLoops) {
  const auto kernel = [](const std::string& factor) {
    return Parse("dims a\nin 0 f64 [] dense\nin 1 f32 [a] dense\ns0 : f32 [] = cast<f32>(" +
                 factor + ")\nout 0 f32 [a] dense = mul(in1[a], s0[])\n");
  };
  const Kernel none = kernel("in0[]"), much = kernel("pow(pow(in0[], in0[]), in0[])");
  const Machine& machine = MachineFor(IsaLevel::kV4);
  EXPECT_EQ(LanesFor(much, machine, 4), LanesFor(none, machine, 4));
  EXPECT_EQ(LanesFor(much, machine, 4), 64);
  EXPECT_EQ(GrainFor(much, machine), GrainFor(none, machine));
  EXPECT_GT(CompileWork(much), CompileWork(none));
}

TEST(Choose, IndicesDoNotNarrowWhatIsMadeOfTheElements) {
  const auto lanes = [&](const char* type, const char* value) {
    return LanesFor(Parse("dims a b\nsizes n0\nin 0 " + std::string(type) +
                          " [a, n0] dense\nin 1 i64 [a, b] dense\nout 0 " + type +
                          " [a, b] dense = " + value + "\n"),
                    MachineFor(IsaLevel::kV4), 1);
  };
  EXPECT_EQ(lanes("f32", "log(in0[a, [in1[a, b]]])"), 16);
  EXPECT_EQ(lanes("i64", "neg(in0[a, [in1[a, b]]])"), 8);
}

// A loop over both dims would find the address of each lane by itself.
TEST(Choose, ShiftedReadsKeepTheirRows) {
  const Kernel kernel = Parse(
      "dims a b\nsizes n0 n1 n2\nin 0 f32 [n0, n1] dense\n"
      "out 0 f32 [a, b] dense = sub(in0[a+|n2|, b+|n2|], in0[a, b+|n2|])\n");
  EXPECT_THAT(Chosen(kernel, {{510, 510, 512, 512, 1}}).ToString(), Not(HasSubstr("collapsed=2")));
}

TEST(Choose, GuaranteesInPlaceOnlyWhereElementsMatch) {
  const Kernel kernel = Parse(R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
in   2 i32 [a, b] dense
in   3 f16 [a, b] dense
in   4 f32 [a, b] rows
in   5 f32 [a, b] dense
out  0 f32 [a, b] dense = add(add(in0[a, b], in1[b]), add(cast<f32>(in2[a, b]), add(in3[a, b], add(in4[a, b], in5[a, b/2]))))
)");
  EXPECT_EQ(Chosen(kernel, Unknown(kernel)).in_place,
            (std::vector<std::pair<int32_t, int32_t>>{{0, 0}, {2, 0}}));
}

TEST(Choose, AnOutputLiesOverNoInputThatALaterOneNeeds) {
  const Kernel kernel = Parse(
      "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n"
      "out 1 f32 [a] dense = abs(in1[a])\nout 2 f32 [a] dense = sqrt(in0[a])\n");
  EXPECT_EQ(Chosen(kernel, Unknown(kernel)).in_place,
            (std::vector<std::pair<int32_t, int32_t>>{{0, 2}, {1, 2}, {1, 1}}));
}

TEST(Choose, MapsThatWouldMultiplyAreKept) {
  std::string text = "dims a\nin 0 f32 [a] dense\ns0 : f32 [a] = exp(in0[a])\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "s" + std::to_string(i - 1);
    text +=
        "s" + std::to_string(i) + " : f32 [a] = add(" + before + "[a/2], " + before + "[a/3])\n";
  }
  text += "out 0 f32 [a] dense = s11[a]\n";
  const Kernel kernel = Parse(text);
  const Schedule schedule = Chosen(kernel, Unknown(kernel));
  EXPECT_STREQ(schedule.name(), "staged");
  EXPECT_EQ(TextOf(schedule, "stored"), "0,1,2,3,4,5,6,7,8,9,10");
}

}  // namespace
}  // namespace kiln
