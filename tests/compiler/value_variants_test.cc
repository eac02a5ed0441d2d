// SPDX-License-Identifier: Apache-2.0
// Models whose structure depends on values or shapes that come with each run, through the public
// API.
#include "compiler/value_variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A loop's body whose state grows by x, along axis 0, with each iteration.
std::string AppendsX() {
  return OnnxGraph({OnnxNode("Identity", {"on"}, {"o"}),
                    OnnxNode("Concat", {"s", "x"}, {"t"}, {IntAttribute("axis", 0)})},
                   {OnnxValue("i", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("s")},
                   {OnnxValue("o"), OnnxValue("t")});
}

class ValueVariantsTest : public testing::Test {
 protected:
  // y = ReduceSum(x [n, 2], axes), without keeping the axis.
  absl::StatusOr<Model> SumOverAxes() {
    const std::string path = dir_.File("sum.onnx");
    std::ofstream(path, std::ios::binary) << OnnxModel(
        18, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                      {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("axes", kInt64, {1})},
                      {OnnxValue("y", kFloat, {"m"})}));
    return Compile(path, OnVm());
  }

  absl::StatusOr<Model> Written(const std::string& graph) {
    const std::string path = dir_.File("model.onnx");
    std::ofstream(path, std::ios::binary) << OnnxModel(18, graph);
    return Compile(path, OnVm());
  }

  TempDir dir_;
};

// y = 0, 1, ..., as many as x has rows, as exporters count them in floats.
TEST_F(ValueVariantsTest, EachShapeGetsItsProgramWhereItDecidesTheStructure) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"x"}, {"shape"}),
           OnnxNode("Cast", {"shape"}, {"f"}, {IntAttribute("to", kFloat)}),
           OnnxNode("Cast", {"f"}, {"i"}, {IntAttribute("to", kInt64)}),
           OnnxNode("Squeeze", {"i"}, {"n"}), OnnxNode("Range", {"zero", "n", "one"}, {"y"})},
          {OnnxValue("x", kFloat, {"n"})}, {OnnxValue("y", kInt64, {"m"})},
          {OnnxTensor("zero", kInt64, {}, RawBytes<int64_t>({0})),
           OnnxTensor("one", kInt64, {}, RawBytes<int64_t>({1}))})));
  for (int round = 0; round < 2; ++round) {
    for (const int64_t n : {2, 3}) {
      KILN_ASSERT_OK_AND_ASSIGN(const auto counted,
                                model.Run({{"x", FilledTensor(DType::kF32, {n}, 1)}}));
      EXPECT_EQ(counted[0].shape(), std::vector<int64_t>{n});
      EXPECT_EQ(Values(counted[0]).back(), static_cast<double>(n - 1));
    }
  }
}

// A length that is computed in floats is assumed to be that of y, which y need not have: it may
// have one row, which is repeated. Lists of extents behind the assumption would say one row then,
// too.
TEST_F(ValueVariantsTest, AssumptionsAboutWhatExtentsDecideAreForTheseExtents) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"x"}, {"shape"}),
           OnnxNode("Cast", {"shape"}, {"f"}, {IntAttribute("to", kFloat)}),
           OnnxNode("Cast", {"f"}, {"rows"}, {IntAttribute("to", kInt64)}),
           OnnxNode("Expand", {"y", "rows"}, {"wide"}), OnnxNode("Tile", {"wide", "two"}, {"z"})},
          {OnnxValue("x", kFloat, {"n"}), OnnxValue("y", kFloat, {"m"})},
          {OnnxValue("z", kFloat, {"k"})}, {OnnxInts("two", {2})})));
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto same,
                              model.Run({{"x", F32({2}, {0, 0})}, {"y", F32({2}, {1, 2})}}));
    EXPECT_THAT(Values(same[0]), ElementsAre(1, 2, 1, 2));
    KILN_ASSERT_OK_AND_ASSIGN(const auto repeated,
                              model.Run({{"x", F32({2}, {0, 0})}, {"y", F32({1}, {3})}}));
    EXPECT_THAT(Values(repeated[0]), ElementsAre(3, 3, 3, 3));
  }
}

// One branch drops an axis, the other does not: what the condition's value chooses is taken.
TEST_F(ValueVariantsTest, BranchesOfOtherRanksAreChosenByTheConditionsValue) {
  const auto branch = [](const std::string& node) {
    return OnnxGraph({node}, {}, {OnnxValue("r")});
  };
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("If", {"drop"}, {"chosen"},
                    {GraphAttribute("then_branch", branch(OnnxNode("ReduceSum", {"x"}, {"r"},
                                                                   {IntAttribute("keepdims", 0)}))),
                     GraphAttribute("else_branch", branch(OnnxNode("Neg", {"x"}, {"r"})))}),
           OnnxNode("Reshape", {"chosen", "flat"}, {"y"})},
          {OnnxValue("x", kFloat, {"n"}), OnnxValue("drop", kBool, {})},
          {OnnxValue("y", kFloat, {"m"})}, {OnnxInts("flat", {-1})})));
  KILN_ASSERT_OK_AND_ASSIGN(
      const auto sum,
      model.Run({{"x", F32({2}, {1, 2})}, {"drop", FilledTensor(DType::kBool, {}, 1)}}));
  EXPECT_THAT(Values(sum[0]), ElementsAre(3));
  KILN_ASSERT_OK_AND_ASSIGN(
      const auto kept,
      model.Run({{"x", F32({2}, {1, 2})}, {"drop", FilledTensor(DType::kBool, {}, 0)}}));
  EXPECT_THAT(Values(kept[0]), ElementsAre(-1, -2));
}

// A branch with a node's result as its only one.
std::string Branch(const std::vector<std::string>& nodes,
                   const std::vector<std::string>& constants = {}) {
  return OnnxGraph(nodes, {}, {OnnxValue("r")}, constants);
}

// The condition is counted in floats; constants decide it once the extents are numbers.
TEST_F(ValueVariantsTest, BranchesOfOtherRanksAreChosenByExtentsCountedInFloats) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"x"}, {"shape"}),
           OnnxNode("Cast", {"shape"}, {"f"}, {IntAttribute("to", kFloat)}),
           OnnxNode("Less", {"f", "two"}, {"short"}),
           OnnxNode(
               "If", {"short"}, {"y"},
               {GraphAttribute("then_branch", Branch({OnnxNode("Unsqueeze", {"x", "axis"}, {"r"})},
                                                     {OnnxInts("axis", {0})})),
                GraphAttribute("else_branch", Branch({OnnxNode("Neg", {"x"}, {"r"})}))})},
          {OnnxValue("x", kFloat, {"n"})}, {OnnxValue("y", kFloat, {"m"})},
          {OnnxFloats("two", {2})})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto one, model.Run({{"x", F32({1}, {5})}}));
  EXPECT_THAT(one[0].shape(), ElementsAre(1, 1));
  KILN_ASSERT_OK_AND_ASSIGN(const auto two, model.Run({{"x", F32({2}, {5, 6})}}));
  EXPECT_THAT(Values(two[0]), ElementsAre(-5, -6));
}

// Exporters guard what would be wrong by a condition on extents.
TEST_F(ValueVariantsTest, ABranchThatIsWrongMattersOnlyIfItIsChosen) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"x"}, {"shape"}), OnnxNode("Equal", {"shape", "four"}, {"is_four"}),
           OnnxNode("If", {"is_four"}, {"y"},
                    {GraphAttribute("then_branch", Branch({OnnxNode("Concat", {"a", "b"}, {"r"},
                                                                    {IntAttribute("axis", 1)})})),
                     GraphAttribute("else_branch", Branch({OnnxNode("Neg", {"a"}, {"r"})}))})},
          {OnnxValue("x", kFloat, {"n"}), OnnxValue("a", kFloat, {1, 2}),
           OnnxValue("b", kFloat, {3, 2})},
          {OnnxValue("y", kFloat, {"m", "k"})}, {OnnxInts("four", {4})})));
  const Tensor a = F32({1, 2}, {1, 2}), b = F32({3, 2}, {0, 0, 0, 0, 0, 0});
  KILN_ASSERT_OK_AND_ASSIGN(const auto good, model.Run({{"x", F32({1}, {0})}, {"a", a}, {"b", b}}));
  EXPECT_THAT(Values(good[0]), ElementsAre(-1, -2));
  const auto bad = model.Run({{"x", F32({4}, {0, 0, 0, 0})}, {"a", a}, {"b", b}});
  EXPECT_THAT(bad.status().message(), HasSubstr("1 and 3 differ"));
}

// Both branches take x[-2:m], where a run finds out how long x is: as long as they say together
// only if x has two elements.
TEST_F(ValueVariantsTest, ResultsOfBranchesAreAsLongAsTheRunMakesThem) {
  const auto slice = [](const std::string& op) {
    return Branch(
        {OnnxNode("Slice", {"short", "back", "end", "zero"}, {"s"}), OnnxNode(op, {"s"}, {"r"})},
        {OnnxInts("back", {-2}), OnnxInts("zero", {0})});
  };
  const std::string body = OnnxGraph(
      {OnnxNode("Identity", {"on"}, {"still_on"}),
       OnnxNode("Slice", {"state", "one", "most", "none"}, {"next"})},
      {OnnxValue("iteration", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("state")},
      {OnnxValue("still_on"), OnnxValue("next")},
      {OnnxInts("one", {1}), OnnxInts("most", {INT64_MAX}), OnnxInts("none", {0})});
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"t"}, {"iterations"}), OnnxNode("Shape", {"m"}, {"end"}),
           OnnxNode("Loop", {"iterations", "", "x"}, {"short"}, {GraphAttribute("body", body)}),
           OnnxNode("Equal", {"end", "seven"}, {"is_seven"}),
           OnnxNode("If", {"is_seven"}, {"chosen"},
                    {GraphAttribute("then_branch", slice("Neg")),
                     GraphAttribute("else_branch", slice("Abs"))}),
           OnnxNode("Neg", {"chosen"}, {"y"})},
          {OnnxValue("x", kFloat, {"n"}), OnnxValue("t", kFloat, {"q"}),
           OnnxValue("m", kFloat, {"m"})},
          {OnnxValue("y", kFloat, {"k"})}, {OnnxInts("seven", {7})})));
  for (const int64_t iterations : {1, 2, 3}) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto y,
                              model.Run({{"x", F32({3}, {1, 2, 3})},
                                         {"t", FilledTensor(DType::kF32, {iterations}, 0)},
                                         {"m", F32({1}, {0})}}));
    EXPECT_EQ(Values(y[0]), iterations == 1   ? std::vector<double>({-2})
                            : iterations == 2 ? std::vector<double>({-3})
                                              : std::vector<double>());
  }
}

// Of the node only its shape is read, which holds if its branches fit.
TEST_F(ValueVariantsTest, BranchesThatOnlyGiveTheirShapeMustFit) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"a"}, {"shape"}), OnnxNode("Equal", {"shape", "seven"}, {"is_seven"}),
           OnnxNode("If", {"is_seven"}, {"r"},
                    {GraphAttribute("then_branch", Branch({OnnxNode("Add", {"a", "b"}, {"r"})})),
                     GraphAttribute("else_branch", Branch({OnnxNode("Sub", {"a", "b"}, {"r"})}))}),
           OnnxNode("Shape", {"r"}, {"extents"}), OnnxNode("Expand", {"unit", "extents"}, {"y"})},
          {OnnxValue("a", kFloat, {"n"}), OnnxValue("b", kFloat, {"m"})},
          {OnnxValue("y", kFloat, {"k"})}, {OnnxInts("seven", {7}), OnnxFloats("unit", {5})})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto y,
                            model.Run({{"a", F32({2}, {0, 0})}, {"b", F32({2}, {0, 0})}}));
  EXPECT_THAT(Values(y[0]), ElementsAre(5, 5));
  KILN_ASSERT_OK_AND_ASSIGN(const auto wide,
                            model.Run({{"a", F32({1}, {0})}, {"b", F32({2}, {0, 0})}}));
  EXPECT_THAT(Values(wide[0]), ElementsAre(5, 5));
  const auto bad = model.Run({{"a", F32({2}, {0, 0})}, {"b", F32({3}, {0, 0, 0})}});
  EXPECT_THAT(bad.status().message(), HasSubstr("2 and 3 differ"));
}

// n - 1 elements are asked for: wrong for all n but 0, where -1 stands for as many as there are.
TEST_F(ValueVariantsTest, WhatExtentsSayMayFitWhereOthersDoNot) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model, Written(OnnxGraph({OnnxNode("Shape", {"x"}, {"shape"}),
                                      OnnxNode("Sub", {"shape", "one"}, {"less"}),
                                      OnnxNode("Reshape", {"x", "less"}, {"y"})},
                                     {OnnxValue("x", kFloat, {"n"})},
                                     {OnnxValue("y", kFloat, {"m"})}, {OnnxInts("one", {1})})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto none, model.Run({{"x", F32({0}, {})}}));
  EXPECT_THAT(none[0].shape(), ElementsAre(0));
  const auto bad = model.Run({{"x", F32({3}, {1, 2, 3})}});
  EXPECT_THAT(bad.status().message(), HasSubstr("3 and 2 differ"));
}

// The first slice assumes five elements, the second follows it, and Squeeze takes one alone.
TEST_F(ValueVariantsTest, AssumptionsThatExcludeEachOtherAreForTheseExtents) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph({OnnxNode("Slice", {"x", "five", "most"}, {"a"}),
                         OnnxNode("Slice", {"x", "last", "one"}, {"b"}),
                         OnnxNode("Squeeze", {"x", "zero"}, {"c"})},
                        {OnnxValue("x", kFloat, {"n"})},
                        {OnnxValue("a", kFloat, {"m"}), OnnxValue("b", kFloat, {"k"}),
                         OnnxValue("c", kFloat, {})},
                        {OnnxInts("five", {-5}), OnnxInts("most", {INT64_MAX}),
                         OnnxInts("last", {-1}), OnnxInts("one", {1}), OnnxInts("zero", {0})})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", F32({1}, {3})}}));
  for (const Tensor& tensor : out) EXPECT_THAT(Values(tensor), ElementsAre(3));
}

// Within a branch, too, bounds that extents decide may be negative.
TEST_F(ValueVariantsTest, BoundsCountedAroundABranchMayBeNegative) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Shape", {"x"}, {"shape"}),
           OnnxNode("Cast", {"shape"}, {"f"}, {IntAttribute("to", kFloat)}),
           OnnxNode("Mul", {"f", "half"}, {"back"}),
           OnnxNode("Cast", {"back"}, {"end"}, {IntAttribute("to", kInt64)}),
           OnnxNode("If", {"c"}, {"y"},
                    {GraphAttribute("then_branch",
                                    Branch({OnnxNode("Slice", {"x", "zero", "end"}, {"r"})})),
                     GraphAttribute("else_branch", Branch({OnnxNode("Neg", {"x"}, {"r"})}))})},
          {OnnxValue("x", kFloat, {"n"}), OnnxValue("c", kBool, {})},
          {OnnxValue("y", kFloat, {"m"})}, {OnnxFloats("half", {-0.5}), OnnxInts("zero", {0})})));
  const auto run = [&](double c) {
    return model.Run({{"x", F32({4}, {1, 2, 3, 4})}, {"c", FilledTensor(DType::kBool, {}, c)}});
  };
  KILN_ASSERT_OK_AND_ASSIGN(const auto cut, run(1));
  EXPECT_THAT(Values(cut[0]), ElementsAre(1, 2));
  KILN_ASSERT_OK_AND_ASSIGN(const auto whole, run(0));
  EXPECT_THAT(Values(whole[0]), ElementsAre(-1, -2, -3, -4));
}

// A Gather that nothing reads assumes that the loop's result has rows; only the loop knows.
TEST_F(ValueVariantsTest, WhatADeadNodeAssumesOfARunCanBeAsked) {
  const std::string body = AppendsX();
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Loop", {"two", "", "x"}, {"long"}, {GraphAttribute("body", body)}),
           OnnxNode("Gather", {"long", "two"}, {"unread"}), OnnxNode("Neg", {"x"}, {"y"})},
          {OnnxValue("x", kFloat, {"n"})}, {OnnxValue("y", kFloat, {"n"})},
          {OnnxInts("two", {2})})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", F32({2}, {1, 2})}}));
  EXPECT_THAT(Values(y[0]), ElementsAre(-1, -2));
}

// A loop makes two rows of one; Resize to as many as there were is not what leaves them alone.
TEST_F(ValueVariantsTest, ResizeKeepsNoExtentThatOnlyARunTells) {
  const std::string body = AppendsX();
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(
          OnnxGraph({OnnxNode("Loop", {"once", "", "x"}, {"long"}, {GraphAttribute("body", body)}),
                     OnnxNode("Shape", {"x"}, {"shape"}),
                     OnnxNode("Resize", {"long", "", "", "shape"}, {"y"},
                              {TextAttribute("coordinate_transformation_mode", "asymmetric"),
                               TextAttribute("nearest_mode", "floor")})},
                    {OnnxValue("x", kFloat, {"n"})}, {OnnxValue("y", kFloat, {"m"})},
                    {OnnxInts("once", {1})})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", F32({3}, {1, 2, 3})}}));
  EXPECT_THAT(Values(y[0]), ElementsAre(1, 3, 2));
}

TEST_F(ValueVariantsTest, EachValueGetsItsProgramAndOtherExtentsShareIt) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, SumOverAxes());
  ASSERT_EQ(model.inputs().size(), 2u);
  ASSERT_EQ(model.outputs().size(), 1u);
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const auto rows, model.Run({{"x", F32({2, 2}, {1, 2, 3, 4})}, {"axes", I64({1}, {1})}}));
    EXPECT_THAT(Values(rows[0]), ElementsAre(3, 7));
    KILN_ASSERT_OK_AND_ASSIGN(const auto columns, model.Run({{"x", F32({2, 2}, {1, 2, 3, 4})},
                                                             {"axes", I64({1}, {-2})}}));
    EXPECT_THAT(Values(columns[0]), ElementsAre(4, 6));
    KILN_ASSERT_OK_AND_ASSIGN(const auto longer, model.Run({{"x", F32({3, 2}, {1, 2, 3, 4, 5, 6})},
                                                            {"axes", I64({1}, {1})}}));
    EXPECT_THAT(Values(longer[0]), ElementsAre(3, 7, 11));
  }
}

// The file gives the type of y and no shape, and only a run tells one.
TEST_F(ValueVariantsTest, AnOutputOfAnyRankCanBeBound) {
  const std::string y = BytesField(1, "y") + BytesField(2, BytesField(1, NumberField(1, kFloat)));
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model, Written(OnnxGraph(
                       {OnnxNode("ReduceSum", {"x", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                       {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("axes", kInt64, {1})}, {y})));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", F32({2, 2}, {1, 2, 3, 4})));
  KILN_ASSERT_OK(context.Bind("axes", I64({1}, {1})));
  const Tensor sums = Tensor::Allocate(DType::kF32, {2});
  KILN_ASSERT_OK(context.BindOutput("y", sums));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Values(sums), ElementsAre(3, 7));
  KILN_ASSERT_OK(context.BindOutput("y", Tensor::Allocate(DType::kF32, {2, 1})));
  EXPECT_EQ(context.Run().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ValueVariantsTest, WrongValuesAndShapesAreRefusedAndDoNoHarm) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, SumOverAxes());
  const auto outside = model.Run({{"x", F32({1, 2}, {1, 2})}, {"axes", I64({1}, {2})}});
  EXPECT_EQ(outside.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(outside.status().message(), HasSubstr("axis 2"));
  const auto wide = model.Run({{"x", F32({1, 3}, {1, 2, 3})}, {"axes", I64({1}, {0})}});
  EXPECT_THAT(wide.status().message(), HasSubstr("\"x\": dim 1 is 3, expected 2"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto good,
                            model.Run({{"x", F32({1, 2}, {1, 2})}, {"axes", I64({1}, {1})}}));
  EXPECT_THAT(Values(good[0]), ElementsAre(3));
}

}  // namespace
}  // namespace kiln
