// SPDX-License-Identifier: Apache-2.0
#include "schedule/price.h"
#include "base/cpu_features.h"
#include "schedule/choose.h"
#include "schedule/device.h"

#include "absl/strings/str_replace.h"
#include "fusion/live_set.h"
#include "fusion/predict.h"
#include "gmock/gmock.h"
#include "kernel/text.h"
#include "schedule/machine.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Round numbers, with which prices can be checked by hand.
constexpr char kText[] =
    "kiln machine 4\n# a comment\ntarget x86-64-v3\nvector 32\nregisters 16\nl1 32768\nl2 "
    "1048576\nl3 4194304\ngrain 32768\nlaunch 100\nloop 1\ngather 2\ntranspose 1\nmask 1e-9\n"
    "gflops 10\nlatency 1e-9\nwindow 100\njump 1e-9\nadd 1\ndiv 4\nsqrt 4\ninteger_div 8\nextreme "
    "4\nset 1000 "
    "100\nset 2000 50\n";

Machine Simple() { return *ParseMachine(kText); }

TEST(Machine, ShipsAFileForEachLevel) {
  EXPECT_EQ(ShippedMachine(CpuTarget(IsaLevel::kV3)).target, CpuTarget(IsaLevel::kV3));
  EXPECT_EQ(ShippedMachine(CpuTarget(IsaLevel::kV4)).target, CpuTarget(IsaLevel::kV4));
  EXPECT_EQ(ShippedMachine(CpuTarget(IsaLevel::kBaseline)).target, CpuTarget(IsaLevel::kV3));
}

TEST(Machine, ReadsWhatItPrints) {
  const absl::StatusOr<Machine> again = ParseMachine(ToString(Simple()));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(ToString(*again), ToString(Simple()));
}

TEST(Machine, RefusesWhatIsNoMachine) {
  const auto refused = [](const std::string& text, const char* why) {
    EXPECT_THAT(ParseMachine(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << text;
  };
  const std::string text = kText;
  refused("", "lacks the line \"kiln machine 4\"");
  refused("kiln machine 3\n", "machine line 1");
  refused("kiln machine 4\nlaunch 100\n", "target");
  refused(text + "speed 3\n", "\"speed 3\"");
  refused(text + "launch 100\n", "\"launch 100\"");
  refused(text + "set 1500 3\n", "\"set 1500 3\"");
  refused(text + "set 3000 0\n", "\"set 3000 0\"");
  refused(text + "set 3000 inf\n", "inf");
  refused(text + "set 3000 nan\n", "nan");
}

TEST(Machine, InterpolatesBandwidth) {
  EXPECT_EQ(Simple().GbPerS(0), 100);
  EXPECT_EQ(Simple().GbPerS(1500), 75);
  EXPECT_EQ(Simple().GbPerS(1e9), 50);
}

Price Of(const char* body, std::vector<int64_t> extents) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(std::string("kernel v1 math 1\n") + body);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? PriceOf(*kernel, extents, Simple()) : Price();
}

TEST(PriceOf, AddsWhatDoesNotHideToTheLongerOfWalkingAndComputing) {
  const Price price = Of("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n", {1000});
  EXPECT_EQ(price.bytes, 8000);
  EXPECT_EQ(price.memory_ns, 8000 / 50.0);
  EXPECT_EQ(price.compute_ns, 1000 + 1000);  // the load and the operation
  EXPECT_DOUBLE_EQ(price.ns, 100 + 1 + 2000 + 0.25 * 160);
}

TEST(PriceOf, CountsLinesThatAreReadToBeWritten) {
  const Price price =
      Of("dims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\nin 2 f32 [a] dense\n"
         "out 0 f32 [a] dense = fma(in0[a], in1[a], in2[a])\n",
         {1000});
  EXPECT_EQ(price.bytes, 16000);
  EXPECT_DOUBLE_EQ(price.memory_ns, (12000 + 2 * 4000) / 1.5 / 50);
}

TEST(PriceOf, CountsShortRowsApart) {
  const char* const kSoftmax =
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce max over b (in0[a, b])\n"
      "out 0 f32 [a, b] dense = sub(in0[a, b], s0[a])\n";
  const Price whole = Of(kSoftmax, {10, 64}), part = Of(kSoftmax, {10, 65});
  // Each row folds its lanes: six shuffles and six maxima of 8 lanes.
  EXPECT_NEAR(whole.idle_ns, 10 * 12 * 4 * 8, 1e-3);
  EXPECT_GT(part.idle_ns, whole.idle_ns + 10 * 15);
}

TEST(PriceOf, DivisionsOfF64TakeTwiceThoseOfF32) {
  constexpr char kDivision[] =
      "dims a\nin 0 %s [a] dense\nout 0 %s [a] dense = div(in0[a], in0[a])\n";
  const double narrow =
      Of(absl::StrReplaceAll(kDivision, {{"%s", "f32"}}).c_str(), {100}).compute_ns;
  const double wide = Of(absl::StrReplaceAll(kDivision, {{"%s", "f64"}}).c_str(), {100}).compute_ns;
  EXPECT_DOUBLE_EQ(wide - 25, 2 * (narrow - 25));  // the load is a quarter hidden
}

TEST(PriceOf, StoresUnderMasksAtTheEndsOfRowsThatAreNotWhole) {
  Machine machine = Simple();
  machine.mask_ns = 7;
  const absl::StatusOr<Kernel> kernel = ParseKernel(
      "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\n"
      "out 0 f32 [a, b] dense = add(in0[a, b], in1[b])\n");
  ASSERT_THAT(kernel, IsOk());
  const auto masks = [&](int64_t row, const char* text) {
    const std::vector<int64_t> extents = {10, row};
    const Schedule with = *Schedule::Parse(text, DeviceKind::kCpu);
    return PriceOf(*kernel, extents, machine, with).idle_ns -
           PriceOf(*kernel, extents, Simple(), with).idle_ns;
  };
  EXPECT_DOUBLE_EQ(masks(32, "pointwise step=16"), 0);
  EXPECT_NEAR(masks(33, "pointwise step=16"), 10 * 2 * 7, 1e-6);
  EXPECT_NEAR(masks(33, "pointwise step=8"), 10 * 1 * 7, 1e-6);
}

TEST(PriceOf, CountsDearElementsThatAreComputedAgainAndAgain) {
  const Price price =
      Of("dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\n"
         "out 0 f32 [a, b] dense = mul(in0[a, b], exp(in1[b]))\n",
         {10, 20});
  EXPECT_EQ(price.expensive_repeats, 10);
  EXPECT_GT(price.compute_ns, 200 * 10);
}

TEST(PriceOf, ComputesOnceARowWhatIsTheSameAlongIt) {
  const Price price =
      Of("dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\ns0 : f32 [a] = sqrt(in1[a])\n"
         "out 0 f32 [a, b] dense = mul(in0[a, b], s0[a])\n",
         {10, 20});
  EXPECT_EQ(price.expensive_repeats, 1);
  EXPECT_EQ(price.compute_ns, (10 * 4 + 0.25 * 10) + 2 * 200);
}

TEST(PriceOf, RowsOfAFewElementsStartNoLoops) {
  constexpr char kSums[] =
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (exp(in0[a, b]))\n"
      "out 0 f32 [a, b] dense = sub(in0[a, b], s0[a])\n";
  const Price across = Of(kSums, {1000, 8}), along = Of(kSums, {1000, 25});
  EXPECT_EQ(across.idle_ns, 0);
  EXPECT_GT(along.idle_ns, 0);
}

// Pairs of an element each of two operands: vectors run along the dim before the pair.
TEST(PriceOf, PairsAreGatheredFromWhatVectorsDoNotRunAlong) {
  constexpr char kPairs[] =
      "dims a b c\nin 0 f32 [a, b] dense\nin 1 f32 [%s] dense\n"
      "out 0 f32 [a, b, c] dense = select(lt(index(c), i64:1), in0[a, b], in1[%s])\n";
  const Price along = Of(absl::StrReplaceAll(kPairs, {{"%s", "a, b"}}).c_str(), {100, 100, 2});
  const Price strided = Of(absl::StrReplaceAll(kPairs, {{"%s", "b, a"}}).c_str(), {100, 100, 2});
  EXPECT_LT(along.ns, 100 + 0.25 * 1e4 / 8 + along.memory_ns + along.compute_ns);
  EXPECT_EQ(strided.compute_ns - along.compute_ns, 1e4 * 2);
}

// Each vector runs across the axis of the concat, and finds the elements of one part alone.
TEST(PriceOf, FindsElementsOfOnePartOfAConcat) {
  constexpr char kRoots[] =
      "dims a b c\nin 0 f32 [b, a, c] dense\nin 1 f32 [b, a, c] dense\n"
      "s0 : f32 [a, b] = reduce add over c (%s)\nout 0 f32 [a, b] dense = sqrt(s0[a, b])\n";
  const auto with = [&](const char* read) {
    return Of(absl::StrReplaceAll(kRoots, {{"%s", read}}).c_str(), {100, 100, 2}).compute_ns;
  };
  const double either = with("guard(lt(index(a), i64:50), in0[b, a, c], in1[b, a, c])");
  const double by_lane = with("guard(lt(index(b), i64:50), in0[b, a, c], in1[b, a, c])");
  EXPECT_EQ(by_lane - either, 100 * 100 * 2 * Simple().gather_ns);
}

TEST(PriceOf, IsFiniteWithoutElements) {
  const Price price = Of("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n", {0});
  EXPECT_GE(price.ns, 100);
  EXPECT_LT(price.ns, 1000);
}

TEST(PredictNs, TakesProductsAtTheirFlops) {
  const Graph graph = Parsed(
      "graph g\ninput x : f32 [100, 100]\ninput w : f32 [100, 100]\ny = matmul(x, w)\noutput y\n");
  const absl::StatusOr<std::vector<double>> ns = PredictNs(graph, Grouped(graph), Simple());
  ASSERT_THAT(ns, IsOk());
  const double compute = 2e6 / 10, walk = 120000 / 50.0;
  EXPECT_THAT(*ns, ElementsAre(100 + compute + 0.25 * walk));
}

// However an operand lies, a product has the same terms.
TEST(PredictNs, OfTransposedOperandsIsThatOfTheProduct) {
  const auto price = [](const std::string& operands, const std::string& call) {
    const Graph graph = Parsed("graph g\n" + operands + "y = " + call + "\noutput y\n");
    const absl::StatusOr<std::vector<double>> ns = PredictNs(graph, Grouped(graph), Simple());
    EXPECT_THAT(ns, IsOk());
    return *ns;
  };
  const std::vector<double> plain =
      price("input x : f32 [30, 800]\ninput w : f32 [800, 70]\n", "matmul(x, w)");
  EXPECT_EQ(
      price("input x : f32 [800, 30]\ninput w : f32 [800, 70]\n", "matmul(x, w) {trans_a = 1}"),
      plain);
  EXPECT_EQ(price("input x : f32 [800, 30]\ninput w : f32 [70, 800]\n",
                  "matmul(x, w) {trans_a = 1, trans_b = 1}"),
            plain);
  EXPECT_EQ(price("input x : f32 [800]\ninput w : f32 [800, 70]\n", "matmul(x, w) {trans_a = 1}"),
            price("input x : f32 [800]\ninput w : f32 [800, 70]\n", "matmul(x, w)"));
  const std::vector<double> forward =
      price("input x : f32 [2, 4, 9, 9]\ninput w : f32 [8, 4, 3, 3]\n", "conv(x, w)");
  const std::vector<double> backward =
      price("input x : f32 [2, 4, 9, 9]\ninput g : f32 [2, 8, 7, 7]\n",
            "conv_backward_weights(x, g) {kernel = [3, 3]}");
  EXPECT_EQ(backward, forward);
}

// A value lives from the place that makes it to the last that reads it.
TEST(LiveSet, KnowsWhatLivesAndWhatWouldAfterAMove) {
  const Graph graph = Parsed(
      "graph g\ninput x : f32 [10]\na = matmul(x, x)\nb = neg(x)\nc = exp(b)\nd = add(a, c)\n"
      "output d\n");
  const absl::StatusOr<GraphAnalysis> analysis = Analyse(graph, 0);
  ASSERT_THAT(analysis, IsOk());
  const auto place = [](NodeId id) { return id.v; };
  std::vector<bool> asked(graph.values().size(), false);
  asked[static_cast<size_t>(graph.outputs()[0].value.v)] = true;
  LiveSet live(*analysis, asked, 4, place);
  const std::vector<NodeId> all = {NodeId{0}, NodeId{1}, NodeId{2}, NodeId{3}};
  // a is 4 bytes, b and c 40.
  EXPECT_THAT(live.Moved(0, 3, all, place, place), ElementsAre(4, 44, 84, 44));
  const auto together = [](NodeId id) { return std::max(id.v, 2); };
  const std::vector<int64_t> moved = live.Moved(0, 3, all, place, together);
  EXPECT_THAT(moved, ElementsAre(0, 0, 44, 44));
  EXPECT_FALSE(live.RaisesPeak(0, moved));
  EXPECT_TRUE(live.RaisesPeak(1, {86}));
}

}  // namespace
}  // namespace kiln
