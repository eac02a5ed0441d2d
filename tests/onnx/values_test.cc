// SPDX-License-Identifier: Apache-2.0
// Operands that tell a model's structure: computed from constants, or given with each run.
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "graph/tensors.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kX = OnnxValue("x", kFloat, {"n", 4});
const std::string kAxes = OnnxValue("axes", kInt64, {1});

std::string SumOverAxes() {
  return OnnxModel(18, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"})}, {kX, kAxes},
                                 {OnnxValue("y", kFloat, {"a", "b"})}));
}

TEST(Values, ThatDecideTheStructureAreNamed) {
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import,
                            ImportOnnxBytes(SumOverAxes(), nullptr, {.allow_unsupported = true}));
  EXPECT_THAT(import.value_inputs, ElementsAre("axes"));
  ASSERT_EQ(import.unsupported.size(), 1u);
  EXPECT_TRUE(import.unsupported[0].needs_values);
  ASSERT_EQ(import.declared_outputs.size(), 1u);
  EXPECT_EQ(import.declared_outputs[0].name, "y");
}

TEST(Values, ThatAreGivenAreGuarded) {
  OnnxImportOptions options;
  options.input_values["axes"] = FilledTensor(DType::kI64, {1}, 1);
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import,
                            ImportOnnxBytes(SumOverAxes(), nullptr, options));
  EXPECT_THAT(import.value_inputs, IsEmpty());
  EXPECT_EQ(ToString(import.graph.value(import.graph.outputs()[0].value).shape), "[n, 1]");
  ASSERT_EQ(import.graph.guards().size(), 1u);
  EXPECT_EQ(import.graph.guards()[0].input, "axes");
}

// Of inputs without data only the shapes count.
TEST(Values, ThatAreNotKnownAreAskedForByName) {
  TempDir dir;
  const std::string path = dir.File("sum.onnx");
  std::ofstream(path, std::ios::binary) << SumOverAxes();
  const Tensor x = Tensor::View(nullptr, DType::kF32, {3, 4});
  const absl::Status status =
      ImportOnnxFor(path, {{"x", x}, {"axes", Tensor::View(nullptr, DType::kI64, {1})}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(),
              HasSubstr("input \"axes\": the model's structure depends on its value"));
  KILN_ASSERT_OK_AND_ASSIGN(
      const OnnxImport import,
      ImportOnnxFor(path, {{"x", x}, {"axes", FilledTensor(DType::kI64, {1}, 1)}}));
  EXPECT_EQ(ToString(import.graph.value(import.graph.outputs()[0].value).shape), "[n, 1]");
}

// Data never become a guard: an operand made of them is not supported, and no value is asked for.
TEST(Values, OfLargeInputsAreNotAskedFor) {
  const std::string model =
      OnnxModel(18, OnnxGraph({OnnxNode("Cast", {"x"}, {"i"}, {IntAttribute("to", kInt64)}),
                               OnnxNode("Reshape", {"i", "flat"}, {"axes"}),
                               OnnxNode("ReduceSum", {"x", "axes"}, {"y"})},
                              {kX}, {OnnxValue("y")}, {OnnxInts("flat", {-1})}));
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import,
                            ImportOnnxBytes(model, nullptr, {.allow_unsupported = true}));
  EXPECT_THAT(import.value_inputs, IsEmpty());
  ASSERT_EQ(import.unsupported.size(), 1u);
  EXPECT_FALSE(import.unsupported[0].needs_values);
}

// The limit of a range is 2.5 * 2 here, as exporters write it.
TEST(Values, OfConstantsAreComputed) {
  const std::string model = OnnxModel(
      18, OnnxGraph({OnnxNode("Mul", {"a", "b"}, {"limit1"}),
                     OnnxNode("Reshape", {"limit1", "scalar"}, {"limit"}),
                     OnnxNode("Reshape", {"zero", "scalar"}, {"start"}),
                     OnnxNode("Reshape", {"one", "scalar"}, {"step"}),
                     OnnxNode("Range", {"start", "limit", "step"}, {"y"})},
                    {kX}, {OnnxValue("y")},
                    {OnnxFloats("a", {2.5f}), OnnxFloats("b", {2}), OnnxFloats("zero", {0}),
                     OnnxFloats("one", {1}), OnnxInts("scalar", {})}));
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnxBytes(model));
  EXPECT_EQ(ToString(import.graph.value(import.graph.outputs()[0].value).shape), "[5]");
}

}  // namespace
}  // namespace kiln
