// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM as a loop (the number of steps is a symbol) against the same written out (it is
// a number): random attributes, operands and lengths. The two are to give the same bits; that those
// written out are right is what ONNX's own tests say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "compiler/model_source.h"
#include "graph/onnx/import.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using Random = std::mt19937_64;

int Below(Random& random, int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); }
bool OneIn(Random& random, int n) { return Below(random, n) == 0; }

Tensor RandomFloats(Random& random, std::vector<int64_t> shape) {
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  std::uniform_real_distribution<float> values(-1, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    static_cast<float*>(tensor.data())[i] = values(random);
  return tensor;
}

std::string Initializer(const std::string& name, const Tensor& tensor) {
  const int type = tensor.dtype() == DType::kI32 ? kInt32 : kFloat;
  return OnnxTensor(
      name, type, {tensor.shape().begin(), tensor.shape().end()},
      {static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.size_bytes())});
}

// A node with its operands. What may be an initializer is one, or an input of the graph.
struct Case {
  std::string op;
  int steps = 0;
  bool layout = false;
  std::vector<std::string> attributes, outputs;
  std::vector<std::pair<std::string, Tensor>> operands;  // in the node's order; "": left out
  std::vector<bool> constant;                            // whether it is an initializer

  // The model with that many steps, or with a symbol, and a symbol for the batch.
  std::string Model(bool symbol) const {
    std::vector<std::string> names, inputs, initializers, results;
    for (size_t k = 0; k < operands.size(); ++k) {
      const auto& [name, tensor] = operands[k];
      names.push_back(name);
      if (name.empty()) continue;
      if (constant[k]) {
        initializers.push_back(Initializer(name, tensor));
        continue;
      }
      std::vector<OnnxDim> dims;
      for (const int64_t extent : tensor.shape()) dims.emplace_back(static_cast<int>(extent));
      if (name == "X" && symbol) dims[layout ? 1 : 0] = "steps";
      if (name == "X") dims[layout ? 0 : 1] = "batch";
      inputs.push_back(OnnxValue(name, tensor.dtype() == DType::kI32 ? kInt32 : kFloat, dims));
    }
    for (const std::string& output : outputs) {
      if (!output.empty()) results.push_back(OnnxValue(output));
    }
    return OnnxModel(
        14, OnnxGraph({OnnxNode(op, names, outputs, attributes)}, inputs, results, initializers));
  }
  std::vector<Tensor> Inputs() const {
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!operands[k].first.empty() && !constant[k]) inputs.push_back(operands[k].second);
    }
    return inputs;
  }
};

void AddAttributes(Random& random, int directions, Case& made) {
  const std::vector<std::string> all = {"Tanh",     "Sigmoid", "Relu",      "Softsign",
                                        "Softplus", "Elu",     "LeakyRelu", "HardSigmoid"};
  const int each = made.op == "RNN" ? 1 : made.op == "GRU" ? 2 : 3;
  if (OneIn(random, 2)) {
    std::vector<std::string> names;
    for (int i = 0; i < each * directions; ++i)
      names.push_back(all[static_cast<size_t>(Below(random, 8))]);
    made.attributes.push_back(TextsAttribute("activations", names));
  }
  if (OneIn(random, 3)) made.attributes.push_back(FloatAttribute("clip", 0.4f));
  if (made.layout) made.attributes.push_back(IntAttribute("layout", 1));
  if (made.op == "GRU")
    made.attributes.push_back(IntAttribute("linear_before_reset", Below(random, 2)));
  if (made.op == "LSTM") made.attributes.push_back(IntAttribute("input_forget", Below(random, 2)));
}

// As many steps as `steps`; lengths of sequences are from 0 on.
Case RandomCase(Random& random, int steps) {
  Case made;
  made.steps = steps;
  made.op = std::vector<std::string>{"RNN", "GRU", "LSTM"}[static_cast<size_t>(Below(random, 3))];
  const bool lstm = made.op == "LSTM";
  const int way = Below(random, 3), d = way == 2 ? 2 : 1;
  made.attributes.push_back(TextAttribute("direction", way == 0   ? "forward"
                                                       : way == 1 ? "reverse"
                                                                  : "bidirectional"));
  made.layout = OneIn(random, 4);
  const int64_t h = 1 + Below(random, 5), inputs = 1 + Below(random, 4),
                batch = 1 + Below(random, 3);
  const int64_t rows = h * (lstm ? 4 : made.op == "GRU" ? 3 : 1);
  made.attributes.push_back(IntAttribute("hidden_size", h));
  AddAttributes(random, d, made);
  const auto add = [&](const std::string& name, Tensor tensor, bool may_be_constant) {
    made.operands.emplace_back(name, std::move(tensor));
    made.constant.push_back(may_be_constant && !OneIn(random, 4));
  };
  const auto maybe = [&](const std::string& name, const std::vector<int64_t>& shape, bool there,
                         bool may_be_constant) {
    add(there && OneIn(random, 2) ? name : "", RandomFloats(random, shape), may_be_constant);
  };
  const std::vector<int64_t> x = made.layout ? std::vector<int64_t>{batch, steps, inputs}
                                             : std::vector<int64_t>{steps, batch, inputs};
  add("X", RandomFloats(random, x), false);
  add("W", RandomFloats(random, {d, rows, inputs}), true);
  add("R", RandomFloats(random, {d, rows, h}), true);
  maybe("B", {d, 2 * rows}, true, true);
  Tensor lengths = Tensor::Allocate(DType::kI32, {batch});
  for (int64_t i = 0; i < batch; ++i)
    static_cast<int32_t*>(lengths.data())[i] = Below(random, steps + 1);
  add(OneIn(random, 2) ? "sequence_lens" : "", lengths, false);
  maybe("initial_h", {d, batch, h}, !made.layout, false);
  if (lstm) maybe("initial_c", {d, batch, h}, !made.layout, false);
  if (lstm) maybe("P", {d, 3 * h}, true, true);
  for (const char* output : {"Y", "Y_h", "Y_c"}) {
    if (*output == 'Y' && output[1] == '_' && output[2] == 'c' && !lstm) continue;
    made.outputs.emplace_back(OneIn(random, 3) ? "" : output);
  }
  const auto none = [](const std::string& name) { return name.empty(); };
  if (std::all_of(made.outputs.begin(), made.outputs.end(), none)) made.outputs[0] = "Y";
  return made;
}

bool HasLoop(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op->name == std::string("loop"); });
}

void ExpectSameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].shape(), b[k].shape());
    const Tensor x = a[k].Clone(), y = b[k].Clone();
    EXPECT_EQ(std::memcmp(x.data(), y.data(), static_cast<size_t>(x.size_bytes())), 0)
        << "output " << k;
  }
}

void ExpectNear(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].shape(), b[k].shape());
    const Tensor x = a[k].Clone(), y = b[k].Clone();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const float want = static_cast<const float*>(y.data())[i];
      ASSERT_NEAR(static_cast<const float*>(x.data())[i], want, 1e-5 * (1 + std::abs(want)))
          << "output " << k;
    }
  }
}

std::vector<Tensor> RunOnVm(const Graph& graph, const std::vector<Tensor>& inputs,
                            const std::shared_ptr<KernelService>& service, int level) {
  CompileOptions options;
  options.graph_opt_level = level;
  options.compile_mode = CompileMode::kNever;
  options.threads = 1;
  options.kernels = service;
  absl::StatusOr<Model> model = Compile(graph, options);
  if (!model.ok()) ADD_FAILURE() << model.status().message();
  if (!model.ok()) return {};
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t k = 0; k < inputs.size(); ++k)
    named.emplace_back(graph.value(graph.inputs()[k]).name, inputs[k]);
  absl::StatusOr<std::vector<Tensor>> outputs = model->Run(named);
  if (!outputs.ok()) ADD_FAILURE() << outputs.status().message();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

TEST(Recurrent, ALoopGivesTheBitsOfStepsWrittenOut) {
  const auto cases = static_cast<int64_t>(FromEnvironment("KILN_RECURRENT_CASES", 240));
  const auto first = static_cast<int64_t>(FromEnvironment("KILN_SEED", 1));
  CompileOptions never;
  never.compile_mode = CompileMode::kNever;
  never.cache.enabled = false;
  const auto service = std::make_shared<KernelService>(never);
  for (int64_t seed = first; seed < first + cases; ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    Random random(static_cast<uint64_t>(seed));
    const Case made = RandomCase(random, 1 + Below(random, 9));
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport loop, ImportOnnxBytes(made.Model(true)));
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport plain, ImportOnnxBytes(made.Model(false)));
    ASSERT_TRUE(HasLoop(loop.graph));
    ASSERT_FALSE(HasLoop(plain.graph));
    const std::vector<Tensor> inputs = made.Inputs();
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> a, Interpret(loop.graph, inputs));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> b, Interpret(plain.graph, inputs));
    ExpectSameBits(a, b);
    if (seed % 4 == 0) {
      ExpectSameBits(RunOnVm(loop.graph, inputs, service, 0),
                     RunOnVm(plain.graph, inputs, service, 0));
    }
    // What library calls take along differs, and with it how they round.
    if (seed % 4 == 2)
      ExpectNear(RunOnVm(loop.graph, inputs, service, 3), RunOnVm(plain.graph, inputs, service, 3));
    if (testing::Test::HasFailure()) return;
  }
}

// More steps than are written out, as a number and as a symbol; and none.
TEST(Recurrent, ManyStepsAreALoop) {
  for (const int steps : {0, 256, 257, 1500}) {
    Random random(7);
    const Case made = RandomCase(random, steps);
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport number, ImportOnnxBytes(made.Model(false)));
    EXPECT_EQ(HasLoop(number.graph), steps != 256);
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport symbol, ImportOnnxBytes(made.Model(true)));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> a, Interpret(number.graph, made.Inputs()));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> b, Interpret(symbol.graph, made.Inputs()));
    ExpectSameBits(a, b);
  }
}

// One import and, from the third length on, nothing that is made anew.
TEST(Recurrent, OneProgramServesAllLengths) {
  const TempDir dir;
  Random random(3);
  Tensor w = RandomFloats(random, {2, 32, 4}), r = RandomFloats(random, {2, 32, 8});
  const std::string node =
      OnnxNode("LSTM", {"X", "W", "R"}, {"Y", "Y_h", "Y_c"},
               {TextAttribute("direction", "bidirectional"), IntAttribute("hidden_size", 8)});
  const std::string path = dir.File("lstm.onnx");
  std::ofstream(path, std::ios::binary)
      << OnnxModel(14, OnnxGraph({node}, {OnnxValue("X", kFloat, {"steps", "batch", 4})},
                                 {OnnxValue("Y"), OnnxValue("Y_h"), OnnxValue("Y_c")},
                                 {Initializer("W", w), Initializer("R", r)}));
  KILN_ASSERT_OK_AND_ASSIGN(const ModelSource source, ModelSource::Read(path));
  EXPECT_FALSE(source.needs_inputs()) << "each length would be an import of its own";
  CompileOptions options;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  options.threads = 1;
  options.kernels = std::make_shared<KernelService>(options);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path, options));
  int kernels = 0;
  const std::vector<int64_t> lengths = {1, 5, 100, 300, 2000};
  for (size_t k = 0; k < lengths.size(); ++k) {
    SCOPED_TRACE(absl::StrCat(lengths[k], " steps"));
    const Tensor x = RandomFloats(random, {lengths[k], 2, 4});
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model.Run({{"X", x}}));
    if (k == 2) kernels = options.kernels->counts().kernels;
    if (k > 2) {
      EXPECT_EQ(options.kernels->counts().kernels, kernels);
    }
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want,
                              Interpret(source.graph(), std::vector<Tensor>{x}));
    ExpectNear(got, want);
  }
}

TEST(Recurrent, AnOpenHiddenSizeIsNamed) {
  const std::string node = OnnxNode("GRU", {"X", "W", "R"}, {"Y"});
  const std::vector<std::string> inputs = {OnnxValue("X", kFloat, {3, 2, 4}),
                                           OnnxValue("W", kFloat, {1, "rows", 4}),
                                           OnnxValue("R", kFloat, {1, "rows", "h"})};
  EXPECT_THAT(ImportOnnxBytes(OnnxModel(14, OnnxGraph({node}, inputs, {OnnxValue("Y")}))),
              StatusIs(absl::StatusCode::kUnimplemented,
                       testing::HasSubstr("the last extent of R, the hidden size, must be known")));
}

}  // namespace
}  // namespace kiln
