// SPDX-License-Identifier: Apache-2.0
// Gradient of ai.onnx.preview.training, of tensors as they are and with other values in their
// place.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
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

// A named tensor is what its input says, whatever other named ones change behind it.
TEST(OnnxGradient, NamedTensorsAreIndependent) {
  const std::vector<Tensor> got =
      GradientsOf({.inputs = {"m", "d"}, .xs = {"m", "a"}, .y = "l"}, {"dm", "da"});
  EXPECT_THAT(Values(got[0]), ElementsAre(11, 13));  // c
  EXPECT_THAT(Values(got[1]), ElementsAre(0, 0));    // m hides it
}

// ---- Random graphs, against derivatives of their definition by numbers with a derivative.

struct Dual {
  double value = 0, slope = 0;
};

struct Step {
  std::string op, made;
  std::vector<std::string> read;
};

// Element `e` of `name`, where those in `given` are what they say.
Dual DualOf(const std::vector<Step>& steps, const std::string& name, size_t e,
            const std::map<std::string, Dual>& given) {
  if (const auto found = given.find(name); found != given.end()) return found->second;
  const auto step =
      std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.made == name; });
  if (step == steps.end()) return {Values(Numbers()[static_cast<size_t>(name[0] - 'a')])[e] / 8, 0};
  const Dual x = DualOf(steps, step->read[0], e, given);
  const Dual y = DualOf(steps, step->read.back(), e, given);
  if (step->op == "Add") return {x.value + y.value, x.slope + y.slope};
  if (step->op == "Sub") return {x.value - y.value, x.slope - y.slope};
  if (step->op == "Mul") return {x.value * y.value, x.slope * y.value + x.value * y.slope};
  const double tanh = std::tanh(x.value);
  return {tanh, x.slope * (1 - tanh * tanh)};
}

// KILN_ONNX_GRADIENTS graphs (200) from KILN_SEED on: of 1 to 9 element-wise nodes, of which and of
// whose inputs 1 to 4 are named, and have their own or other values.
TEST(OnnxGradient, RandomGraphsAgreeWithTheirDefinition) {
  const uint64_t first = FromEnvironment("KILN_SEED", 1);
  const uint64_t end = first + FromEnvironment("KILN_ONNX_GRADIENTS", 200);
  for (uint64_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE("KILN_SEED=" + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto any = [&](size_t n) { return static_cast<size_t>(random() % n); };
    std::vector<std::string> names = {"a", "b", "c", "d"};
    std::vector<Step> steps;
    const size_t count = 1 + any(9);
    for (size_t k = 0; k < count; ++k) {
      const char* const ops[] = {"Add", "Sub", "Mul", "Tanh"};
      Step step = {ops[any(4)], "v" + std::to_string(k), {names[any(names.size())]}};
      if (step.op != "Tanh") step.read.push_back(names[any(names.size())]);
      names.push_back(step.made);
      steps.push_back(std::move(step));
    }
    std::vector<std::string> named = names;
    std::shuffle(named.begin(), named.end(), random);
    named.resize(1 + any(4));
    Call call = {.y = "l"};
    const size_t xs = 1 + any(named.size());
    for (size_t k = 0; k < named.size(); ++k) {
      (k < xs ? call.xs : call.zs).push_back(named[k]);
      call.inputs.push_back(any(2) == 0 ? named[k] : names[any(names.size())]);
    }
    std::vector<std::string> nodes, inputs, outputs, values;
    for (const char* name : {"a", "b", "c", "d"}) inputs.push_back(OnnxValue(name, kFloat, {2}));
    for (const Step& step : steps) nodes.push_back(OnnxNode(step.op, step.read, {step.made}));
    nodes.push_back(
        OnnxNode("ReduceSum", {steps.back().made}, {"l"}, {IntAttribute("keepdims", 0)}));
    for (size_t k = 0; k < xs; ++k) {
      outputs.push_back("g" + std::to_string(k));
      values.push_back(OnnxValue(outputs.back()));
    }
    nodes.push_back(Node(call, outputs));
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import,
                              ImportOnnxBytes(OnnxModel(17, OnnxGraph(nodes, inputs, values))));
    std::vector<Tensor> numbers;
    for (const Tensor& whole : Numbers())
      numbers.push_back(F32({2}, {Values(whole)[0] / 8, Values(whole)[1] / 8}));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(import.graph, numbers));
    for (size_t k = 0; k < xs; ++k) {
      for (size_t e = 0; e < 2; ++e) {
        // A tensor that is given as itself may be in what the others are given.
        std::map<std::string, Dual> itself, given;
        if (call.inputs[k] == named[k])
          itself[named[k]] = {DualOf(steps, named[k], e, {}).value, 1};
        for (size_t j = 0; j < named.size(); ++j)
          given[named[j]] = DualOf(steps, call.inputs[j], e, itself);
        given[named[k]].slope = 1;
        const double want = DualOf(steps, steps.back().made, e, given).slope;
        EXPECT_NEAR(Values(got[k])[e], want, 1e-4 * (1 + std::fabs(want))) << named[k] << " " << e;
      }
    }
  }
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
  EXPECT_THAT(Import({.inputs = {"a", "d"}, .xs = {"a", "a"}, .y = "l"}, {"da"}),
              StatusIs(kInvalid, HasSubstr("\"a\" is named twice")));
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
