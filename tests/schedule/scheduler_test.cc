// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/cpu_features.h"
#include "kernel/text.h"
#include "schedule/analysis.h"
#include "schedule/cpu/schedulers.h"
#include "schedule/cpu/templates.h"
#include "schedule/device.h"
#include "schedule/scheduler.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

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

const Scheduler& Chosen(const Kernel& kernel, std::string* why = nullptr) {
  const Scheduler* scheduler = FindScheduler(kernel, HostTarget(), why);
  EXPECT_NE(scheduler, nullptr);
  return *scheduler;
}

SizeClass Unknown(const Kernel& kernel) {
  return {std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
}

Schedule ChosenSchedule(const Kernel& kernel, IsaLevel isa = IsaLevel::kV3) {
  return Chosen(kernel).choose(kernel, Unknown(kernel), ShippedMachine(CpuTarget(isa)));
}

TEST(SchedulerTest, LastAcceptsEverything) {
  EXPECT_STREQ(CpuSchedulers().back().name, "general");
  EXPECT_TRUE(CpuSchedulers().back().accepts(Kernel()));
}

TEST(SchedulerTest, SaysWhyTheBetterOnesRefuse) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [] = reduce add over a b (in0[a, b])\nout 0 f32 "
      "[] dense = s0[]\n");
  std::string why;
  EXPECT_STREQ(Chosen(kernel, &why).name, "general");
  EXPECT_EQ(
      why,
      "pointwise: it has a reduction; row: a reduction is over another dim than the innermost; "
      "column: it reduces all dims; cross: no output is over all dims; sweep: a reduction over all "
      "dims takes the innermost");
}

TEST(SchedulerTest, OneReductionOverShortRowsIsColumns) {
  const Kernel kernel = Parse(
      "dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [a, c] = reduce add over b (in0[a, b, c])\n"
      "out 0 f32 [a, c] dense = s0[a, c]\n");
  const Scheduler& column = Chosen(kernel);
  EXPECT_STREQ(column.name, "column");
  const Machine& profile = ShippedMachine(CpuTarget(IsaLevel::kV4));
  EXPECT_STREQ(column.choose(kernel, {{8, 1000, 13}}, profile).name(), "outer_reduction");
  EXPECT_STREQ(column.choose(kernel, {{8, 1000, 4000}}, profile).name(), "staged");
  EXPECT_STREQ(column.choose(kernel, Unknown(kernel), profile).name(), "staged");
}

TEST(SchedulerTest, BlocksOfTallColumnsAreTasksWhereTilesWouldBeFew) {
  const Kernel kernel = Parse(
      "dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [a, c] = reduce add over b (in0[a, b, c])\n"
      "out 0 f32 [a, c] dense = s0[a, c]\n");
  const auto apart = [&](int64_t a, int64_t b, int64_t c) {
    const SizeClass sizes{{a, b, c}};
    return FieldOf(Chosen(kernel).choose(kernel, sizes, ShippedMachine(CpuTarget(IsaLevel::kV4))),
                   "two_stage", 0);
  };
  EXPECT_EQ(apart(1, 3136, 96), 1);
  EXPECT_EQ(apart(1, 100, 96), 0);  // one task is enough
  EXPECT_EQ(apart(64, 3136, 96), 0);
}

TEST(SchedulerTest, WhatIsReducedAndAlsoStoredIsSweptOnce) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a, b] = exp(in0[a, b])\n"
      "s1 : f32 [b] = reduce add over a (s0[a, b])\n"
      "out 0 f32 [a, b] dense = s0[a, b]\nout 1 f32 [b] dense = s1[b]\n");
  const Scheduler& column = Chosen(kernel);
  EXPECT_STREQ(column.name, "column");
  EXPECT_STREQ(column.choose(kernel, {{480, 64}}, ShippedMachine(CpuTarget(IsaLevel::kV4))).name(),
               "staged");
}

TEST(SchedulerTest, RowsAreCutWherePiecesAreWorthALoop) {
  const Kernel kernel = Parse(
      "dims a b\nsizes n0\nin 0 f32 [a, n0] dense\nin 1 f32 [a, n0] dense\nout 0 f32 [a, b] dense "
      "= guard(lt(index(b), extent(n0)), in0[a, b], guard(le(extent(n0), index(b)), in1[a, "
      "b-|n0|], guard(lt(index(b), mul(extent(n0), i64:2)), in1[a, b], 0)))\n");
  const auto cuts = [&](int64_t b) {
    const SizeClass sizes{{1000, b, kUnbounded}};
    return FieldOf(Chosen(kernel).choose(kernel, sizes, ShippedMachine(CpuTarget(IsaLevel::kV4))),
                   "segments", 0);
  };
  EXPECT_EQ(cuts(kUnbounded), 2);
  EXPECT_EQ(cuts(48), 2);
  EXPECT_EQ(cuts(9), 0);
}

TEST(SchedulerTest, PiecesShareVectorsWhereThoseAreFewer) {
  const Kernel kernel = Parse(
      "dims a b\nsizes n0 n1\nin 0 f32 [a, n0] dense\nin 1 f32 [a, n1] dense\nout 0 f32 [a, b] "
      "dense = guard(lt(index(b), extent(n0)), in0[a, b], guard(le(extent(n0), index(b)), in1[a, "
      "b-|n0|], 0))\n");
  const auto share = [&](int64_t first, int64_t second) {
    const SizeClass sizes{{1000, first + second, first, second}};
    const Schedule params =
        Chosen(kernel).choose(kernel, sizes, ShippedMachine(CpuTarget(IsaLevel::kV4)));
    EXPECT_EQ(FieldOf(params, "segments", 0), 1);
    return FieldOf(params, "order", -1) == 0;
  };
  EXPECT_TRUE(share(5, 7));     // one beside two
  EXPECT_TRUE(share(1, 31));    // two beside three
  EXPECT_FALSE(share(16, 16));  // two beside two
  EXPECT_FALSE(share(1, 127));
}

TEST(SchedulerTest, CellsOfLongColumnsAreWholeRows) {
  const Kernel kernel = Parse(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [a, c] = reduce add over b (in0[a, b, c])
out  0 f32 [a, c] dense = s0[a, c]
)");
  const auto lanes = [&](int64_t a, int64_t b, int64_t c, IsaLevel isa = IsaLevel::kV4) {
    const Schedule params =
        Chosen(kernel).choose(kernel, {{a, b, c}}, ShippedMachine(CpuTarget(isa)));
    return params.Is(kOuterReduction) ? FieldOf(params, "step", 0) : 0;
  };
  EXPECT_EQ(lanes(8, 1000, 49), 64);
  EXPECT_EQ(lanes(8, 1000, 210), 224);
  EXPECT_EQ(lanes(8, 60, 210), 64);
  EXPECT_EQ(lanes(1000, 60, 210), 224);
  EXPECT_EQ(lanes(8, 1000, 257), 0);
  EXPECT_EQ(lanes(8, 1000, 90, IsaLevel::kV3), 96);
  EXPECT_EQ(lanes(8, 1000, 97, IsaLevel::kV3), 32);
}

TEST(SchedulerTest, SoftmaxOverAnotherAxisIsColumns) {
  const Kernel kernel = Parse(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [a, c] = reduce max over b (in0[a, b, c])
s1 : f32 [a, b, c] = exp(sub(in0[a, b, c], s0[a, c]))
s2 : f32 [a, c] = reduce add over b (s1[a, b, c])
out  0 f32 [a, b, c] dense = div(s1[a, b, c], s2[a, c])
)");
  const Scheduler& column = Chosen(kernel);
  EXPECT_STREQ(column.name, "column");
  EXPECT_EQ(
      column.choose(kernel, {{8, 1000, 49}}, ShippedMachine(CpuTarget(IsaLevel::kV4))).ToString(),
      "outer_reduction step=64 task=16384 outer_levels=2 whole_row=1 stored=1");
  EXPECT_EQ(FieldOf(column.choose(kernel, {{8, 1000, 7}}, ShippedMachine(CpuTarget(IsaLevel::kV4))),
                    "step", 0),
            8);
  const std::vector<SizeClass> classes = column.classes(kernel, Unknown(kernel));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].at_most, (std::vector<int64_t>{kUnbounded, 1024, kUnbounded}));
}

TEST(SchedulerTest, ColumnsAreOfTheSameDims) {
  const Kernel kernel = Parse(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [a] = reduce max over b (in0[a, b])
s1 : f32 [b] = reduce max over a (in0[a, b])
out  0 f32 [a, b] dense = sub(s1[b], s0[a])
)");
  std::string why;
  EXPECT_STREQ(Chosen(kernel, &why).name, "general");
  EXPECT_NE(why.find("column: reductions are over different dims"), std::string::npos) << why;
}

TEST(SchedulerTest, NeighboursKeptApartAreColumns) {
  const Kernel kernel = Parse(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
s0 : f32 [a] = reduce max over b c (in0[a, b, c])
out  0 f32 [a, b, c] dense = mul(sub(in0[a, b, c], s0[a]), in1[b])
)");
  EXPECT_STREQ(Chosen(kernel).name, "column");
}

TEST(SchedulerTest, ReductionsOfWhatReductionsLeaveAreSweeps) {
  const Kernel kernel = Parse(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [b, c] = reduce add over a (in0[a, b, c])
s1 : f32 [b]    = reduce add over c (s0[b, c])
s2 : f32 [b]    = sqrt(s1[b])
out  0 f32 [a, b, c] dense = sub(in0[a, b, c], s2[b])
)");
  const Scheduler& sweep = Chosen(kernel);
  EXPECT_STREQ(sweep.name, "sweep");
  EXPECT_EQ(
      sweep.choose(kernel, {{100, 8, 4}}, ShippedMachine(CpuTarget(IsaLevel::kV3))).ToString(),
      "staged outer_step=32 outer_levels=2 accumulators=4 collapsed=2 stored=2");
}

TEST(SchedulerTest, ReductionsOfRowsAreNoSweepsOverThem) {
  const Kernel kernel = Parse(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [a] = reduce add over b (in0[a, b])
s1 : f32 [b] = reduce add over a (in0[a, b])
out  0 f32 [a, b] dense = sub(s0[a], s1[b])
)");
  std::string why;
  EXPECT_STREQ(Chosen(kernel, &why).name, "general");
  EXPECT_NE(why.find("sweep: a reduction over all dims takes the innermost"), std::string::npos)
      << why;
}

TEST(SchedulerTest, RowsAndReductionsDownThemGoTogether) {
  const Kernel kernel = Parse(R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
s0 : f32 [a, b] = exp(in0[a, b])
s1 : f32 [a]    = reduce add over b (mul(s0[a, b], in1[a, b]))
s2 : f32 [b]    = reduce add over a (mul(s0[a, b], in1[a, b]))
out  0 f32 [a, b] dense = sub(s0[a, b], s1[a])
out  1 f32 [b] dense = neg(s2[b])
)");
  const Scheduler& cross = Chosen(kernel);
  EXPECT_STREQ(cross.name, "cross");
  const auto choose = [&](int64_t a, int64_t b) {
    return cross.choose(kernel, {{a, b}}, ShippedMachine(CpuTarget(IsaLevel::kV3)));
  };
  EXPECT_EQ(choose(1000, 1000).ToString(),
            "row_and_column outer_step=32 outer_levels=2 fused=1 rows=(row_reduction task=16384 "
            "stored=0)");
  EXPECT_EQ(FieldOf(choose(1000, 6), "fused", -1), 0);
  EXPECT_EQ(FieldOf(choose(1000, 13).As<RowAndColumn>().rows, "row", 0), 13);
  EXPECT_EQ(FieldOf(choose(1000, 14).As<RowAndColumn>().rows, "folded", 0), 16);
  EXPECT_EQ(FieldOf(choose(1000, 14), "fused", -1), 1);
  EXPECT_EQ(FieldOf(choose(30, 1000), "fused", -1), 0);
}

TEST(SchedulerTest, InnermostDimsOfAFewElementsAreUnrolled) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\nout 0 f32 [a, b] dense = "
      "add(in0[a, b], in1[a])\n");
  const auto params = [&](int64_t a, int64_t b) {
    return Chosen(kernel)
        .choose(kernel, {{a, b}}, ShippedMachine(CpuTarget(IsaLevel::kV4)))
        .ToString();
  };
  EXPECT_EQ(params(1000, 3), "full_unroll inner=3 packed=1 known=-1,3 in_place=0:0");
  EXPECT_EQ(params(1000, 15), "full_unroll inner=15 packed=1 known=-1,15 in_place=0:0");
  EXPECT_EQ(params(1000, 16), "pointwise in_place=0:0");
  EXPECT_EQ(params(10, 3), "pointwise step=8 in_place=0:0");
}

TEST(SchedulerTest, LongExpressionsTakeFewerRowsWhole) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\nout 0 f32 [a, b] dense = "
      "erf(add(in0[a, b], in1[a]))\n");
  const auto whole = [&](int64_t b) {
    return FieldOf(
        Chosen(kernel).choose(kernel, {{1000, b}}, ShippedMachine(CpuTarget(IsaLevel::kV4))),
        "packed", 0);
  };
  EXPECT_EQ(whole(7), 1);
  EXPECT_EQ(whole(15), 0);
}

// So many that tails are rare; what has only some of them repeats.
TEST(SchedulerTest, VectorsAcrossRowsRunAlongSeveralDims) {
  const Kernel kernel = Parse(
      "dims a b c d\nin 0 f32 [a, b, c, d] dense\nin 1 f32 [c] dense\nout 0 f32 [a, b, c, d] "
      "dense = guard(lt(index(d), i64:1), in0[a, b, c, d], in1[c])\n");
  const auto params = [&](int64_t a, int64_t b, int64_t c) {
    return Chosen(kernel)
        .choose(kernel, {{a, b, c, 2}}, ShippedMachine(CpuTarget(IsaLevel::kV4)))
        .ToString();
  };
  EXPECT_EQ(params(99, 20, 5), "full_unroll vectorized=2 expanded=1 known=-1,-1,5,2 in_place=0:0");
  EXPECT_EQ(params(99, 2, 5), "full_unroll vectorized=3 expanded=1 known=-1,2,5,2 in_place=0:0");
  EXPECT_EQ(params(99, 2, 64), "full_unroll known=-1,2,-1,2 in_place=0:0");
}

TEST(SchedulerTest, ShortRowsRunAsOneWithWhatRepeats) {
  const auto params = [](const std::string& dims, std::vector<int64_t> extents) {
    const Kernel kernel =
        Parse("dims a b c d\nin 0 f32 [a, b, c, d] dense\nin 1 f32 [" + dims +
              "] dense\nout 0 f32 [a, b, c, d] dense = add(in0[a, b, c, d], in1[" + dims + "])\n");
    const Schedule chosen = Chosen(kernel).choose(kernel, {std::move(extents)},
                                                  ShippedMachine(CpuTarget(IsaLevel::kV4)));
    return std::pair(FieldOf(chosen, "collapsed", 1), TextOf(chosen, "expanded"));
  };
  using Pair = std::pair<int64_t, std::string>;
  EXPECT_EQ(params("c, d", {9, 9, 9, 9}), Pair(4, "1"));
  EXPECT_EQ(params("b", {9, 9, 9, 9}), Pair(4, "1"));
  EXPECT_EQ(params("a", {9, 9, 9, 9}), Pair(3, ""));      // a number for each row
  EXPECT_EQ(params("a, c", {9, 9, 9, 9}), Pair(1, "-"));  // neither
  EXPECT_EQ(params("a", {9, 9, 9, 16}), Pair(3, ""));
  EXPECT_EQ(params("a", {9, 9, 9, 64}), Pair(1, "-"));   // whole steps
  EXPECT_EQ(params("a", {9, 9, 9, 600}), Pair(1, ""));   // long enough
  EXPECT_EQ(params("b", {9, 1000, 9, 9}), Pair(2, ""));  // too long a table
  EXPECT_EQ(params("b", {7, 9, 9, 9}), Pair(2, ""));     // of which little is read again
}

TEST(SchedulerTest, ShortRowsInAnotherOrderAreRunInLoops) {
  const auto order = [](const std::string& dims, int64_t c) {
    const Kernel kernel = Parse("dims a b c\nin 0 f32 [" + dims + "] dense\nout 0 f32 [a, b, c] " +
                                "dense = neg(in0[" + dims + "])\n");
    const Schedule chosen =
        Chosen(kernel).choose(kernel, {{99, 99, c}}, ShippedMachine(CpuTarget(IsaLevel::kV4)));
    return std::pair(FieldOf(chosen, "order", -1), FieldOf(chosen, "step", 0));
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(order("b, a, c", 3), Pair(0, 4));
  EXPECT_EQ(order("b, a, c", 5), Pair(0, 8));
  EXPECT_EQ(order("b, a, c", 17), Pair(0, 8));
  EXPECT_EQ(order("b, a, c", 30), Pair(0, 32));
  EXPECT_EQ(order("b, a, c", 33), Pair(0, 16));
  EXPECT_EQ(order("b, a, c", 1000), Pair(-1, 64));
  EXPECT_EQ(order("a, b, c", 30).first, -1);
}

TEST(SchedulerTest, SoftmaxIsRowsAndKeepsItsExponentials) {
  const Kernel kernel = Parse(kSoftmax);
  EXPECT_STREQ(Chosen(kernel).name, "row");
  EXPECT_EQ(ChosenSchedule(kernel).ToString(),
            "row_reduction task=16384 levels=3 stored=1 in_place=0:0");
}

TEST(SchedulerTest, DecidesByProfile) {
  const Kernel kernel = Parse("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n");
  EXPECT_EQ(FieldOf(ChosenSchedule(kernel, IsaLevel::kV3), "step", 0), 32);
  EXPECT_EQ(FieldOf(ChosenSchedule(kernel, IsaLevel::kV4), "step", 0), 64);
}

TEST(SchedulerTest, ShortRowsTakeFewRegisters) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\nout 0 f32 [a, b] dense = "
      "add(in0[a, b], in1[a])\n");
  const auto lanes = [&](int64_t row) {
    return FieldOf(Chosen(kernel).choose(kernel, {{kUnbounded, row}},
                                         ShippedMachine(CpuTarget(IsaLevel::kV4))),
                   "step", 0);
  };
  EXPECT_EQ(lanes(kUnbounded), 64);
  EXPECT_EQ(lanes(33), 64);
  EXPECT_EQ(lanes(32), 32);
  EXPECT_EQ(lanes(25), 32);
  EXPECT_EQ(lanes(24), 8);  // three halves
  EXPECT_EQ(lanes(17), 8);
  EXPECT_EQ(lanes(16), 16);
}

TEST(SchedulerTest, IndicesDoNotNarrowWhatIsMadeOfTheElements) {
  const auto lanes = [&](const char* type, const char* value) {
    const Kernel kernel = Parse("dims a b\nsizes n0\nin 0 " + std::string(type) +
                                " [a, n0] dense\nin 1 i64 [a, b] dense\nout 0 " + type +
                                " [a, b] dense = " + value + "\n");
    return FieldOf(ChosenSchedule(kernel, IsaLevel::kV4), "step", 0);
  };
  EXPECT_EQ(lanes("f32", "log(in0[a, [in1[a, b]]])"), 16);
  EXPECT_EQ(lanes("i64", "neg(in0[a, [in1[a, b]]])"), 8);
}

TEST(SchedulerTest, TurnsInputsThatRunAlongAnotherDim) {
  const Kernel kernel = Parse(
      "dims a b c\nin 0 u8 [a, c, b] dense\nout 0 f32 [a, b, c] dense = cast<f32>(in0[a, c, b])\n");
  const auto params = [&](int64_t b, int64_t c = 1000) {
    return Chosen(kernel)
        .choose(kernel, {{8, b, c}}, ShippedMachine(CpuTarget(IsaLevel::kV3)))
        .ToString();
  };
  EXPECT_EQ(params(64), "transpose step=8 along=1");
  EXPECT_EQ(params(3), "deinterleave channel=1 channels=3");
  EXPECT_EQ(params(3, 9), "packed_blocks blocks=4 dims=2 known=-1,3,9");
  // A loop over two tiles is too short.
  EXPECT_EQ(params(9), "transpose step=8 along=1 columns=64");
  // Tiles run along several dims that are short.
  const Kernel image = Parse(
      "dims a b c d\nin 0 f32 [a, d, b, c] dense\nin 1 f32 [c] dense\nout 0 f32 [a, b, c, d] dense "
      "= add(in0[a, d, b, c], in1[c])\n");
  const auto turns = [&](int64_t c) {
    return FieldOf(
        Chosen(image).choose(image, {{8, 99, c, 1000}}, ShippedMachine(CpuTarget(IsaLevel::kV3))),
        "dims", 1);
  };
  EXPECT_EQ(turns(7), 2);
  EXPECT_EQ(turns(33), 2);
  EXPECT_EQ(turns(56), 1);
  EXPECT_EQ(turns(113), 1);
  // Elements along the innermost dim lie far from each other, however few run along the other.
  const Kernel far = Parse(
      "dims a b c\nin 0 f32 [c, b, a] dense\nout 0 f32 [a, b, c] dense = neg(in0[c, b, a])\n");
  EXPECT_EQ(
      FieldOf(Chosen(far).choose(far, {{4, 99, 1000}}, ShippedMachine(CpuTarget(IsaLevel::kV3))),
              "along", -1),
      0);
}

// Of outputs that need what a nest before reduced.
TEST(SchedulerTest, RowsOfImagesAreTakenAsTheyLie) {
  const Kernel kernel = Parse(
      "dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [b] = reduce add over a c (in0[a, b, c])\n"
      "out 0 f32 [b] dense = s0[b]\nout 1 f32 [a, b, c] dense = sub(in0[a, b, c], s0[b])\n");
  const auto as_they_lie = [&](int64_t a, int64_t c) {
    const Schedule params =
        Chosen(kernel).choose(kernel, {{a, 100, c}}, ShippedMachine(CpuTarget(IsaLevel::kV3)));
    EXPECT_STREQ(params.name(), "outer_reduction");
    return FieldOf(params, "memory_order", 0) != 0;
  };
  EXPECT_TRUE(as_they_lie(10, 128));
  EXPECT_FALSE(as_they_lie(100, 40));
  EXPECT_TRUE(as_they_lie(1000, 40));  // from memory
  EXPECT_FALSE(as_they_lie(1000, 12));
}

// Along rows of a few elements most lanes are idle, which counts where each computes much.
TEST(SchedulerTest, VectorsRunAcrossShortRowsOfFunctions) {
  const auto choose = [](const std::string& function, int64_t rows, int64_t row, bool whole) {
    const Kernel kernel =
        Parse("dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (" + function +
              "(in0[a, b]))\nout 0 f32 " +
              (whole ? "[a, b] dense = sub(in0[a, b], s0[a])" : "[a] dense = s0[a]") + "\n");
    return Chosen(kernel).choose(kernel, {{rows, row}}, ShippedMachine(CpuTarget(IsaLevel::kV4)));
  };
  const auto across = [&](int64_t rows, int64_t row, bool whole) {
    return FieldOf(choose("exp", rows, row, whole), "row", 0);
  };
  EXPECT_EQ(across(kUnbounded, 4, true), 0);
  EXPECT_EQ(across(kUnbounded, 5, true), 5);
  EXPECT_EQ(across(kUnbounded, 13, true), 13);
  EXPECT_EQ(across(kUnbounded, 14, true), 0);
  EXPECT_EQ(across(kUnbounded, 8, false), 0);
  EXPECT_EQ(across(kUnbounded, 9, false), 9);
  EXPECT_EQ(across(kUnbounded, 24, false), 24);
  EXPECT_EQ(across(kUnbounded, 25, false), 0);
  EXPECT_EQ(across(32, 12, true), 12);
  EXPECT_EQ(across(31, 12, true), 0);
  const auto abreast = [&](int64_t rows, int64_t row, bool whole) {
    return FieldOf(choose("neg", rows, row, whole), "folded", 0);
  };
  EXPECT_EQ(abreast(kUnbounded, 5, true), 16);
  EXPECT_EQ(abreast(kUnbounded, 96, true), 16);
  EXPECT_EQ(abreast(kUnbounded, 97, true), 0);  // 16 rows of two operands are too much
  EXPECT_EQ(abreast(kUnbounded, 192, false), 16);
  EXPECT_EQ(abreast(kUnbounded, 193, false), 0);
  EXPECT_EQ(abreast(31, 100, true), 0);
}

TEST(SchedulerTest, ValuesOfSomeOuterDimsKeepVectorsAlongRows) {
  const Kernel kernel = Parse(R"(dims a b c
in 0 f32 [a, b, c] dense
in 1 f32 [b] dense
s0 : f32 [a, b] = reduce max over c (mul(in0[a, b, c], in1[b]))
out 0 f32 [a, b] dense = s0[a, b]
)");
  const Schedule params =
      Chosen(kernel).choose(kernel, {{99, 99, 9}}, ShippedMachine(CpuTarget(IsaLevel::kV4)));
  EXPECT_EQ(FieldOf(params, "row", 0), 0);
  EXPECT_EQ(FieldOf(params, "folded", 0), 16);
}

TEST(SchedulerTest, LargeExpressionsTakeFewerVectorsAtOnce) {
  const auto lanes = [](int functions) {
    std::string value = "in0[a]";
    for (int i = 0; i < functions; ++i) value = "erf(" + value + ")";
    const Kernel kernel = Parse("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = " + value +
                                "\nout 1 f32 [a] dense = in0[a]\n");  // which is not run in links
    return FieldOf(
        Chosen(kernel).choose(kernel, Unknown(kernel), ShippedMachine(CpuTarget(IsaLevel::kV4))),
        "step", 0);
  };
  EXPECT_EQ(lanes(1), 64);
  EXPECT_EQ(lanes(4), 64);
  EXPECT_EQ(lanes(12), 32);
  EXPECT_EQ(lanes(20), 16);
}

TEST(SchedulerTest, ChainsOfFunctionsRunInLinksWhereRowsAreLong) {
  const Kernel kernel = Parse(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\n"
      "out 0 f32 [a, b] dense = tanh(add(exp(log(in0[a, b])), in1[a]))\n");
  const auto links = [&](const SizeClass& sizes) {
    return FieldOf(Chosen(kernel).choose(kernel, sizes, ShippedMachine(CpuTarget(IsaLevel::kV4))),
                   "parts", 0);
  };
  const std::vector<SizeClass> classes = Chosen(kernel).classes(kernel, Unknown(kernel));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(links(classes[0]), 0);
  EXPECT_EQ(links(classes[1]), 2);
}

TEST(SchedulerTest, SeveralReducedDimsHaveFourLevelsAtMost) {
  const auto widest = [](const std::string& over) {
    const Kernel kernel =
        Parse("dims a b c\nin 0 f32 [a, b, c] dense\ns0 : f32 [c] = reduce add over " + over +
              " (in0[a, b, c])\nout 0 f32 [c] dense = s0[c]\n");
    return CpuSchedulers().back().classes(kernel, Unknown(kernel)).back().at_most[0];
  };
  EXPECT_EQ(widest("a b"), 1 << 20);
  const Kernel one = Parse(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = reduce add over a (in0[a, b])\nout 0 f32 "
      "[b] "
      "dense = s0[b]\n");
  EXPECT_EQ(CpuSchedulers().back().classes(one, Unknown(one)).back().at_most[0], kUnbounded);
}

TEST(SchedulerTest, OneBlockRowsAreAClassOfTheirOwn) {
  const Kernel kernel = Parse(kSoftmax);
  const Scheduler& row = Chosen(kernel);
  const std::vector<SizeClass> classes = row.classes(kernel, Unknown(kernel));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].at_most, (std::vector<int64_t>{kUnbounded, 4096}));
  EXPECT_EQ(FieldOf(row.choose(kernel, classes[0], ShippedMachine(CpuTarget(IsaLevel::kV3))),
                    "levels", 0),
            1);
  EXPECT_EQ(classes[1].at_most, Unknown(kernel).at_most);
  EXPECT_EQ(row.classes(kernel, {{kUnbounded, 768}}).size(), 1u);
}

TEST(SchedulerTest, LevelsCoverTheExtent) {
  EXPECT_EQ(LevelsFor(0, 4096), 1);
  EXPECT_EQ(LevelsFor(4096, 4096), 1);
  EXPECT_EQ(LevelsFor(4097, 4096), 2);
  EXPECT_EQ(LevelsFor(4096 * 4096, 4096), 2);
  EXPECT_EQ(LevelsFor(4096 * 4096 + 1, 4096), 3);
  EXPECT_EQ(LevelsFor(INT32_MAX, 32), 7);
}

TEST(SchedulerTest, GuaranteesInPlaceOnlyWhereElementsMatch) {
  const Kernel kernel = Parse(R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
in   2 i32 [a, b] dense
in   3 f16 [a, b] dense
in   4 f32 [a, b] rows
in   5 f32 [a, b] dense
out  0 f32 [a, b] dense = add(add(in0[a, b], in1[b]), add(cast<f32>(in2[a, b]), add(in3[a, b], add(in4[a, b], in5[a, b/2]))))
)");
  EXPECT_EQ(ChosenSchedule(kernel).in_place,
            (std::vector<std::pair<int32_t, int32_t>>{{0, 0}, {2, 0}}));
}

TEST(SchedulerTest, AnOutputLiesOverNoInputThatALaterOneNeeds) {
  const Kernel kernel = Parse(
      "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n"
      "out 1 f32 [a] dense = abs(in1[a])\nout 2 f32 [a] dense = sqrt(in0[a])\n");
  EXPECT_EQ(ChosenSchedule(kernel).in_place,
            (std::vector<std::pair<int32_t, int32_t>>{{0, 2}, {1, 2}, {1, 1}}));
}

TEST(SchedulerTest, MapsThatWouldMultiplyAreKept) {
  std::string text = "dims a\nin 0 f32 [a] dense\ns0 : f32 [a] = exp(in0[a])\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "s" + std::to_string(i - 1);
    text +=
        "s" + std::to_string(i) + " : f32 [a] = add(" + before + "[a/2], " + before + "[a/3])\n";
  }
  text += "out 0 f32 [a] dense = s11[a]\n";
  const Kernel kernel = Parse(text);
  EXPECT_STREQ(Chosen(kernel).name, "general");
  EXPECT_EQ(TextOf(ChosenSchedule(kernel), "stored"), "0,1,2,3,4,5,6,7,8,9,10");
}

}  // namespace
}  // namespace kiln
