// SPDX-License-Identifier: Apache-2.0
// Extents that only a run finds out, where others are assumed of them: what follows holds for
// whichever come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::ElementsAre;

// 1, 2, ... as many as the shape has elements.
Tensor Counted(const std::vector<int64_t>& shape) {
  Tensor tensor = Tensor::Allocate(DType::kF32, shape);
  std::iota(static_cast<float*>(tensor.data()),
            static_cast<float*>(tensor.data()) + tensor.num_elements(), 1.0f);
  return tensor;
}

// A mask of six places that leaves the first `count`.
Tensor Leaves(int64_t count) {
  Tensor mask = Tensor::Allocate(DType::kBool, {6});
  for (int64_t i = 0; i < 6; ++i) static_cast<uint8_t*>(mask.data())[i] = i < count ? 1 : 0;
  return mask;
}

class FoundExtents : public testing::Test {
 protected:
  absl::StatusOr<Model> Written(const std::string& graph) {
    const std::string path = dir_.File("model.onnx");
    std::ofstream(path, std::ios::binary) << OnnxModel(18, graph);
    return Compile(path, OnVm());
  }

  TempDir dir_;
};

const std::vector<std::string> kMasked = {
    OnnxValue("x", kFloat, {"n"}), OnnxValue("v", kFloat, {6}), OnnxValue("mask", kBool, {6})};

// found: some rows of v. The sum has the extent of the longer one, unless that is of one element
// and the other has none.
TEST_F(FoundExtents, ABroadcastTakesTheExtentOfEitherSide) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Compress", {"v", "mask"}, {"found"}), OnnxNode("Add", {"x", "found"}, {"y"}),
           OnnxNode("Shape", {"y"}, {"s"}), OnnxNode("Tile", {"y", "two"}, {"z"})},
          kMasked, {OnnxValue("s", kInt64, {1}), OnnxValue("z", kFloat, {"m"})},
          {OnnxInts("two", {2})})));
  for (const auto [n, k, both] : {std::array<int64_t, 3>{3, 3, 3},
                                  {1, 3, 3},
                                  {3, 1, 3},
                                  {1, 1, 1},
                                  {1, 0, 0},
                                  {0, 1, 0},
                                  {0, 0, 0}}) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const auto got, model.Run({{"x", Counted({n})}, {"v", Counted({6})}, {"mask", Leaves(k)}}));
    EXPECT_THAT(Values(got[0]), ElementsAre(both)) << n << " " << k;
    EXPECT_THAT(got[1].shape(), ElementsAre(2 * both)) << n << " " << k;
    for (int64_t i = 0; i < 2 * both; ++i) {
      const auto at = static_cast<double>(i % both);
      EXPECT_EQ(Values(got[1])[static_cast<size_t>(i)],
                (n == 1 ? 1 : at + 1) + (k == 1 ? 1 : at + 1));
    }
  }
  EXPECT_FALSE(model.Run({{"x", Counted({2})}, {"v", Counted({6})}, {"mask", Leaves(3)}}).ok());
}

// The same assumption a second time, and a slice whose bounds would follow from it.
TEST_F(FoundExtents, WhatABroadcastAssumesIsNoFactForOtherNodes) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Compress", {"v", "mask"}, {"found"}), OnnxNode("Add", {"x", "found"}, {"y"}),
           OnnxNode("Mul", {"x", "found"}, {"p"}), OnnxNode("Shape", {"p"}, {"s"}),
           OnnxNode("Shape", {"found"}, {"k"}), OnnxNode("Slice", {"x", "zero", "k"}, {"cut"}),
           OnnxNode("Tile", {"cut", "two"}, {"z"})},
          kMasked,
          {OnnxValue("y", kFloat, {"a"}), OnnxValue("s", kInt64, {1}),
           OnnxValue("z", kFloat, {"m"})},
          {OnnxInts("two", {2}), OnnxInts("zero", {0})})));
  for (const auto [n, k] : {std::array<int64_t, 2>{3, 3}, {1, 4}, {4, 1}}) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const auto got, model.Run({{"x", Counted({n})}, {"v", Counted({6})}, {"mask", Leaves(k)}}));
    EXPECT_THAT(got[0].shape(), ElementsAre(std::max(n, k)));
    EXPECT_THAT(Values(got[1]), ElementsAre(std::max(n, k)));
    EXPECT_THAT(got[2].shape(), ElementsAre(2 * std::min(n, k)));
  }
}

// The first of three parts has a third of the elements, rounded up.
TEST_F(FoundExtents, ASplitNeedNotBeEven) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph({OnnxNode("Compress", {"v", "mask"}, {"found"}),
                         OnnxNode("Split", {"found"}, {"p", "q", "r"},
                                  {IntAttribute("axis", 0), IntAttribute("num_outputs", 3)}),
                         OnnxNode("Tile", {"q", "two"}, {"z"}), OnnxNode("Shape", {"r"}, {"s"})},
                        {OnnxValue("v", kFloat, {6}), OnnxValue("mask", kBool, {6})},
                        {OnnxValue("z", kFloat, {"m"}), OnnxValue("s", kInt64, {1})},
                        {OnnxInts("two", {2})})));
  for (const int64_t k : {6, 3, 2, 5}) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto got,
                              model.Run({{"v", Counted({6})}, {"mask", Leaves(k)}}));
    const int64_t part = (k + 2) / 3;
    EXPECT_THAT(got[0].shape(), ElementsAre(2 * part)) << k;
    EXPECT_THAT(Values(got[1]), ElementsAre(k - 2 * part)) << k;
  }
}

// In Reshape, an extent of 0 is that of the input.
TEST_F(FoundExtents, ATargetOfNoElementsCopiesTheExtent) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Compress", {"v", "mask"}, {"found"}), OnnxNode("Shape", {"found"}, {"k"}),
           OnnxNode("Concat", {"k", "rest"}, {"target"}, {IntAttribute("axis", 0)}),
           OnnxNode("Reshape", {"x", "target"}, {"y"}), OnnxNode("Tile", {"y", "twos"}, {"z"})},
          {OnnxValue("x", kFloat, {"n", 4}), OnnxValue("v", kFloat, {6}),
           OnnxValue("mask", kBool, {6})},
          {OnnxValue("z", kFloat, {"a", "b"})},
          {OnnxInts("twos", {2, 2}), OnnxInts("rest", {-1})})));
  for (const auto [k, rows, columns] :
       {std::array<int64_t, 3>{3, 6, 8}, {6, 12, 4}, {0, 6, 8}, {1, 2, 24}}) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const auto got,
        model.Run({{"x", Counted({3, 4})}, {"v", Counted({6})}, {"mask", Leaves(k)}}));
    EXPECT_THAT(got[0].shape(), ElementsAre(rows, columns)) << k;
  }
}

// The state grows by a row with each iteration, x is added to it.
TEST_F(FoundExtents, ABodyAssumesNoMoreThanTheGraphAround) {
  const std::string body =
      OnnxGraph({OnnxNode("Identity", {"on"}, {"o"}),
                 OnnxNode("Concat", {"s", "one"}, {"t"}, {IntAttribute("axis", 0)}),
                 OnnxNode("Add", {"x", "t"}, {"y"}), OnnxNode("Tile", {"y", "two"}, {"z"}),
                 OnnxNode("ReduceSum", {"z"}, {"sum"}, {IntAttribute("keepdims", 0)})},
                {OnnxValue("i", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("s")},
                {OnnxValue("o"), OnnxValue("t"), OnnxValue("sum")});
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph({OnnxNode("Loop", {"iterations", "", "v"}, {"last", "sums"},
                                  {GraphAttribute("body", body)})},
                        {OnnxValue("x", kFloat, {"n"}), OnnxValue("v", kFloat, {"k"})},
                        {OnnxValue("last", kFloat, {"m"}), OnnxValue("sums", kFloat, {"t"})},
                        {OnnxInts("two", {2}), OnnxFloats("one", {1}),
                         OnnxTensor("iterations", kInt64, {}, RawBytes<int64_t>({2}))})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto got,
                            model.Run({{"x", F32({1}, {10})}, {"v", F32({1}, {1})}}));
  EXPECT_THAT(got[0].shape(), ElementsAre(3));
  EXPECT_THAT(Values(got[1]), ElementsAre(44, 66));
  EXPECT_FALSE(model.Run({{"x", F32({2}, {10, 10})}, {"v", F32({1}, {1})}}).ok());
}

// Rows that masks leave, and rows of an input: the iterations of a Scan take one of each. Also
// without iterations.
TEST_F(FoundExtents, ScannedInputsAreOfOneLength) {
  const std::string body =
      OnnxGraph({OnnxNode("Sub", {"p", "q"}, {"d"}), OnnxNode("Add", {"s", "d"}, {"t"})},
                {OnnxValue("s"), OnnxValue("p"), OnnxValue("q")}, {OnnxValue("t")});
  for (const auto& [first, second] :
       {std::array<const char*, 2>{"found", "also"}, {"found", "x"}, {"x", "found"}}) {
    SCOPED_TRACE(absl::StrCat(first, " ", second));
    KILN_ASSERT_OK_AND_ASSIGN(
        Model model,
        Written(OnnxGraph(
            {OnnxNode("Compress", {"v", "mask"}, {"found"}),
             OnnxNode("Compress", {"v", "more"}, {"also"}),
             OnnxNode("Scan", {"zero", first, second}, {"last"},
                      {IntAttribute("num_scan_inputs", 2), GraphAttribute("body", body)})},
            {OnnxValue("x", kFloat, {"n"}), OnnxValue("v", kFloat, {6}),
             OnnxValue("mask", kBool, {6}), OnnxValue("more", kBool, {6})},
            {OnnxValue("last", kFloat, {})},
            {OnnxTensor("zero", kFloat, {}, RawBytes<float>({0}))})));
    for (const auto [k, n] : {std::array<int64_t, 2>{3, 3}, {0, 0}, {2, 3}, {3, 2}, {0, 1}}) {
      SCOPED_TRACE(absl::StrCat(k, " ", n));
      const auto got = model.Run(
          {{"x", Counted({n})}, {"v", Counted({6})}, {"mask", Leaves(k)}, {"more", Leaves(n)}});
      EXPECT_EQ(got.ok(), k == n) << got.status();
      if (got.ok())
        EXPECT_THAT(Values((*got)[0]), ElementsAre(0));
      else
        EXPECT_THAT(got.status().message(), testing::HasSubstr("scanned input 1"));
    }
  }
}

// (n + m + l + 1)^3 twice, made one axis: too long to be written, but a number for every run. The
// model takes n = 2 and m = 1 alone, which no extent for all of them tells.
TEST_F(FoundExtents, WhatIsTooLongAnExpressionIsMadeForNumbers) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Compress", {"v", "mask"}, {"found"}), OnnxNode("Add", {"found", "u"}, {"sum"}),
           OnnxNode("Concat", {"x", "fixed"}, {"both"}, {IntAttribute("axis", 2)}),
           OnnxNode("Shape", {"x"}, {"shape"}),
           OnnxNode("ReduceSum", {"shape"}, {"e"}, {IntAttribute("keepdims", 1)}),
           OnnxNode("Add", {"e", "one"}, {"f"}), OnnxNode("Mul", {"f", "f"}, {"g"}),
           OnnxNode("Mul", {"g", "f"}, {"h"}),
           OnnxNode("Concat", {"h", "h"}, {"wide"}, {IntAttribute("axis", 0)}),
           OnnxNode("ConstantOfShape", {"wide"}, {"w"}),
           OnnxNode("Flatten", {"w"}, {"y"}, {IntAttribute("axis", 0)})},
          {OnnxValue("x", kFloat, {"n", "m", "l"}), OnnxValue("v", kFloat, {6}),
           OnnxValue("mask", kBool, {6}), OnnxValue("u", kFloat, {"j"})},
          {OnnxValue("y", kFloat, {1, "k"}), OnnxValue("sum", kFloat, {"s"}),
           OnnxValue("both", kFloat, {2, 1, "b"})},
          {OnnxInts("one", {1}),
           OnnxTensor("fixed", kFloat, {2, 1, 1}, RawBytes<float>({1, 2}))})));
  for (const int64_t l : {1, 2, 1}) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, model.Run({{"x", Counted({2, 1, l})},
                                                         {"v", Counted({6})},
                                                         {"mask", Leaves(3)},
                                                         {"u", Counted({3})}}));
    const int64_t side = (l + 4) * (l + 4) * (l + 4);
    EXPECT_THAT(got[0].shape(), ElementsAre(1, side * side));
    EXPECT_THAT(Values(got[1]), ElementsAre(2, 4, 6));
  }
}

// Behind a Scan, n is no extent of the inputs of the part of the program that slices, which keeps
// all cases of its bounds: the number of elements is too long an expression there, not in the
// model.
TEST_F(FoundExtents, WhatIsTooLongInAPartIsMadeForNumbers) {
  const std::string body =
      OnnxGraph({OnnxNode("Identity", {"s"}, {"t"}), OnnxNode("Neg", {"row"}, {"out"})},
                {OnnxValue("s"), OnnxValue("row")}, {OnnxValue("t"), OnnxValue("out")});
  const std::string axis = IntAttribute("axis", 0);
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      Written(OnnxGraph(
          {OnnxNode("Scan", {"zero", "x"}, {"last", "rows"},
                    {GraphAttribute("body", body), IntAttribute("num_scan_inputs", 1)}),
           OnnxNode("Shape", {"w"}, {"n"}),
           OnnxNode("Shape", {"x"}, {"m"}, {IntAttribute("end", 1)}),
           OnnxNode("Mod", {"n", "n"}, {"none"}), OnnxNode("Mod", {"none", "m"}, {"times"}),
           OnnxNode("Concat", {"times", "times"}, {"both"}, {axis}),
           OnnxNode("Tile", {"rows", "both"}, {"wide"}),
           OnnxNode("Transpose", {"wide"}, {"tall"}, {IntsAttribute("perm", {1, 0})}),
           OnnxNode("Concat", {"none", "back3"}, {"starts"}, {axis}),
           OnnxNode("Concat", {"back2", "m"}, {"ends"}, {axis}),
           OnnxNode("Slice", {"tall", "starts", "ends"}, {"cut"}),
           OnnxNode("Reshape", {"cut", "pairs"}, {"y"})},
          {OnnxValue("x", kFloat, {"m", 2}), OnnxValue("w", kFloat, {"n"})},
          {OnnxValue("y", kFloat, {"k", 2}), OnnxValue("last", kFloat, {1})},
          {OnnxInts("back2", {-2}), OnnxInts("back3", {-3}), OnnxInts("pairs", {-1, 2}),
           OnnxFloats("zero", {0})})));
  for (const int64_t n : {5, 1, 8}) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto got,
                              model.Run({{"x", Counted({2, 2})}, {"w", Counted({n})}}));
    EXPECT_THAT(got[0].shape(), ElementsAre(0, 2)) << n;
  }
}

}  // namespace
}  // namespace kiln
