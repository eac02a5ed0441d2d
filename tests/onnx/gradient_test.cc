// SPDX-License-Identifier: Apache-2.0
// Gradient of ai.onnx.preview.training, of tensors as they are and with other values in their
// place.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

struct Call {
  std::vector<std::string> inputs, xs;
  std::string y;
  std::vector<std::string> zs = {};
};

std::string Node(const Call& call, const std::vector<std::string>& outputs) {
  std::vector<std::string> attributes = {TextsAttribute("xs", call.xs), TextAttribute("y", call.y)};
  if (!call.zs.empty()) attributes.push_back(TextsAttribute("zs", call.zs));
  return OnnxNode("Gradient", call.inputs, outputs, attributes, "ai.onnx.preview.training");
}

// m = a * b; s = m * c; l = the sum of s, and the gradient. Inputs a, b, c, d are [2].
absl::StatusOr<OnnxImport> Import(const Call& call, const std::vector<std::string>& outputs) {
  std::vector<std::string> inputs, results;
  for (const char* name : {"a", "b", "c", "d"}) inputs.push_back(OnnxValue(name, kFloat, {2}));
  for (const std::string& name : outputs) results.push_back(OnnxValue(name));
  const std::string sum = OnnxNode("ReduceSum", {"s"}, {"l"}, {IntAttribute("keepdims", 0)});
  return ImportOnnxBytes(
      OnnxModel(17, OnnxGraph({OnnxNode("Mul", {"a", "b"}, {"m"}),
                               OnnxNode("Mul", {"m", "c"}, {"s"}), sum, Node(call, outputs)},
                              inputs, results)));
}

const std::vector<Tensor>& Numbers() {
  static const std::vector<Tensor> kNumbers = {F32({2}, {2, 3}), F32({2}, {5, 7}),
                                               F32({2}, {11, 13}), F32({2}, {17, 19})};
  return kNumbers;
}

std::vector<Tensor> GradientsOf(const Call& call, const std::vector<std::string>& outputs) {
  const absl::StatusOr<OnnxImport> import = Import(call, outputs);
  KILN_EXPECT_OK(import.status());
  if (!import.ok()) return {};
  KILN_EXPECT_OK(Verify(import->graph));
  absl::StatusOr<std::vector<Tensor>> results = Interpret(import->graph, Numbers());
  KILN_EXPECT_OK(results.status());
  return results.ok() ? *std::move(results) : std::vector<Tensor>(outputs.size());
}

TEST(OnnxGradient, OfTensorsAsTheyAre) {
  const std::vector<Tensor> got =
      GradientsOf({.inputs = {"a", "m", "d"}, .xs = {"a", "m", "d"}, .y = "l"}, {"da", "dm", "dd"});
  EXPECT_THAT(Values(got[0]), ElementsAre(55, 91));  // b c
  EXPECT_THAT(Values(got[1]), ElementsAre(11, 13));  // c
  EXPECT_THAT(Values(got[2]), ElementsAre(0, 0));
}

// d in place of b, then of m: what is computed of them is computed with d.
TEST(OnnxGradient, WithOtherValues) {
  std::vector<Tensor> got =
      GradientsOf({.inputs = {"a", "d"}, .xs = {"a", "b"}, .y = "l"}, {"da", "db"});
  EXPECT_THAT(Values(got[0]), ElementsAre(187, 247));  // d c
  EXPECT_THAT(Values(got[1]), ElementsAre(22, 39));    // a c
  got = GradientsOf({.inputs = {"c", "d"}, .xs = {"c"}, .y = "l", .zs = {"m"}}, {"dc"});
  EXPECT_THAT(Values(got[0]), ElementsAre(17, 19));  // d
  // One tensor in two places has a derivative for each.
  got = GradientsOf({.inputs = {"d", "d"}, .xs = {"b", "c"}, .y = "l"}, {"db", "dc"});
  EXPECT_THAT(Values(got[0]), ElementsAre(34, 57));  // a d
  EXPECT_THAT(Values(got[1]), ElementsAre(34, 57));
}

TEST(OnnxGradient, Refuses) {
  EXPECT_THAT(Import({.inputs = {"a"}, .xs = {"a", "b"}, .y = "l"}, {"da"}),
              StatusIs(kInvalid, HasSubstr("has 1 inputs, expected 2")));
  EXPECT_THAT(Import({.inputs = {"a"}, .xs = {"a"}, .y = "l"}, {"da", "db"}),
              StatusIs(kInvalid, HasSubstr("has 2 outputs, more than xs, 1")));
  EXPECT_THAT(Import({.inputs = {"a"}, .xs = {"a"}, .y = "later"}, {"da"}),
              StatusIs(kInvalid, HasSubstr("\"later\" is no tensor that is known before")));
  EXPECT_THAT(Import({.inputs = {}, .xs = {}, .y = "l"}, {"da"}),
              StatusIs(kInvalid, HasSubstr("needs attributes xs")));
  EXPECT_THAT(Import({.inputs = {"l"}, .xs = {"a"}, .y = "l"}, {"da"}),
              StatusIs(kInvalid, HasSubstr("input 0 is f32 [], \"a\" f32 [2]")));
  EXPECT_THAT(Import({.inputs = {"a"}, .xs = {"a"}, .y = "s"}, {"da"}),
              StatusIs(kInvalid, HasSubstr("one element")));
}

// Each node differentiates what those before it have added: the graph grows to a limit, not for
// ever.
TEST(OnnxGradient, HasALimit) {
  std::vector<std::string> nodes = {OnnxNode("Mul", {"a", "a"}, {"y0"})};
  std::string last = "y0";
  for (int k = 1; k <= 60; ++k) {
    const std::string g = "g" + std::to_string(k), y = "y" + std::to_string(k);
    nodes.push_back(Node({.inputs = {"a"}, .xs = {"a"}, .y = last}, {g}));
    nodes.push_back(OnnxNode("Mul", {g, last}, {y}));
    last = y;
  }
  EXPECT_THAT(ImportOnnxBytes(
                  OnnxModel(17, OnnxGraph(nodes, {OnnxValue("a", kFloat, {})}, {OnnxValue(last)}))),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("nodes")));
}

}  // namespace
}  // namespace kiln
