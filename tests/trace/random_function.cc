// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/random_function.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/text.h"
#include "kiln/trace_ops.h"

namespace kiln {
namespace {

using Shape64 = std::vector<int64_t>;

struct Maker {
  std::mt19937_64 random;
  RandomFunction function;
  std::vector<Shape64> shapes;
  std::vector<bool> held;

  int64_t Below(int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }
  int Value() {
    for (;;) {
      // The newest values most often: chains.
      const int64_t n = static_cast<int64_t>(shapes.size());
      const int64_t k = Below(2) == 0 ? Below(n) : n - 1 - Below(std::min<int64_t>(n, 4));
      if (held[static_cast<size_t>(k)]) return static_cast<int>(k);
    }
  }
  const Shape64& ShapeOf(int value) const { return shapes[static_cast<size_t>(value)]; }

  // The common shape, or nothing.
  static std::optional<Shape64> Broadcast(const Shape64& a, const Shape64& b) {
    Shape64 out(std::max(a.size(), b.size()), 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
      const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) return std::nullopt;
      out[out.size() - 1 - i] = x == 1 ? y : x;
    }
    return out;
  }

  void Add(RandomStep step, Shape64 shape) {
    step.reads = Below(25) == 0;
    if (Below(6) == 0 && step.operands[0] >= static_cast<int>(function.inputs.size())) {
      step.forgets = true;
      held[static_cast<size_t>(step.operands[0])] = false;
    }
    function.steps.push_back(std::move(step));
    shapes.push_back(std::move(shape));
    held.push_back(true);
  }

  void Binary() {
    static constexpr const char* kOps[] = {"add", "sub", "mul", "div", "max", "min"};
    RandomStep step;
    step.op = kOps[Below(6)];
    const int a = Value();
    step.operands = {a};
    Shape64 shape = ShapeOf(a);
    step.number = static_cast<double>(Below(64) - 32) / 8;
    int b = -1;
    for (int tries = 0; tries < 4 && b < 0 && Below(3) > 0; ++tries) {
      const int candidate = Value();
      if (const auto common = Broadcast(shape, ShapeOf(candidate))) {
        b = candidate;
        shape = *common;
      }
    }
    step.operands.push_back(b);
    if (b >= 0 && Below(8) == 0) std::swap(step.operands[0], step.operands[1]);
    Add(std::move(step), std::move(shape));
  }

  void Unary() {
    static constexpr const char* kOps[] = {"neg",  "exp",      "tanh", "sigmoid", "sqrt",
                                           "relu", "softsign", "abs",  "floor"};
    const int a = Value();
    Add({.op = kOps[Below(9)], .operands = {a}}, ShapeOf(a));
  }

  void Reduce() {
    static constexpr const char* kOps[] = {"reduce_sum", "reduce_max", "reduce_mean", "reduce_min"};
    const int a = Value();
    Shape64 shape = ShapeOf(a);
    if (shape.empty()) return Unary();
    const int64_t axis = Below(static_cast<int64_t>(shape.size())), keep = Below(2);
    if (keep == 1)
      shape[static_cast<size_t>(axis)] = 1;
    else
      shape.erase(shape.begin() + axis);
    Add({.op = kOps[Below(4)],
         .operands = {a},
         .attrs = {{"axes", std::vector<int64_t>{axis}}, {"keepdims", keep}}},
        std::move(shape));
  }

  void Move() {
    const int a = Value();
    Shape64 shape = ShapeOf(a);
    if (shape.empty()) return Unary();
    if (Below(2) == 0) {
      std::reverse(shape.begin(), shape.end());
      return Add({.op = "transpose", .operands = {a}}, std::move(shape));
    }
    const int64_t axis = Below(static_cast<int64_t>(shape.size()));
    int64_t& extent = shape[static_cast<size_t>(axis)];
    const int64_t start = Below(extent), end = start + 1 + Below(extent - start);
    extent = end - start;
    Add({.op = "slice",
         .operands = {a},
         .attrs = {{"starts", std::vector<int64_t>{start}},
                   {"ends", std::vector<int64_t>{end}},
                   {"axes", std::vector<int64_t>{axis}}}},
        std::move(shape));
  }

  void Softmax() {
    const int a = Value();
    if (ShapeOf(a).empty()) return Unary();
    Add({.op = "softmax", .operands = {a}, .attrs = {{"axis", int64_t{-1}}}}, ShapeOf(a));
  }
};

Ints ListOf(const Attrs& attrs, const char* name) {
  const auto found = attrs.find(name);
  return found == attrs.end() ? Ints() : Ints(std::get<std::vector<int64_t>>(found->second));
}
int64_t IntOf(const Attrs& attrs, const char* name) { return std::get<int64_t>(attrs.at(name)); }

using Unary = Array (*)(const Operand&, Location);
using Binary = Array (*)(const Operand&, const Operand&, Location);
using Reduction = Array (*)(const Operand&, const ReduceSumAttributes&, Location);

Array Apply(const RandomStep& step, const Operand& a, const Operand& b) {
  static const std::map<std::string, Unary> kUnary = {
      {"neg", neg},           {"exp", exp}, {"tanh", tanh},   {"sigmoid", sigmoid}, {"sqrt", sqrt},
      {"softsign", softsign}, {"abs", abs}, {"floor", floor}, {"relu", relu}};
  static const std::map<std::string, Binary> kBinary = {
      {"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}};
  const Location here = Location::Here();
  if (const auto found = kUnary.find(step.op); found != kUnary.end()) return found->second(a, here);
  if (const auto found = kBinary.find(step.op); found != kBinary.end())
    return found->second(a, b, here);
  if (step.op == "max") return max(a, b);
  if (step.op == "min") return min(a, b);
  const Ints axes = ListOf(step.attrs, "axes");
  if (step.op == "reduce_sum")
    return reduce_sum(a, {.axes = axes, .keepdims = IntOf(step.attrs, "keepdims")});
  if (step.op == "reduce_max")
    return reduce_max(a, {.axes = axes, .keepdims = IntOf(step.attrs, "keepdims")});
  if (step.op == "reduce_min")
    return reduce_min(a, {.axes = axes, .keepdims = IntOf(step.attrs, "keepdims")});
  if (step.op == "reduce_mean")
    return reduce_mean(a, {.axes = axes, .keepdims = IntOf(step.attrs, "keepdims")});
  if (step.op == "transpose") return transpose(a);
  if (step.op == "softmax") return softmax(a, {.axis = -1});
  return slice(
      a,
      {.starts = ListOf(step.attrs, "starts"), .ends = ListOf(step.attrs, "ends"), .axes = axes});
}

}  // namespace

std::string RandomFunction::ToString() const {
  std::string text;
  for (size_t k = 0; k < inputs.size(); ++k)
    absl::StrAppend(&text, "v", k, " : [", absl::StrJoin(inputs[k], ", "), "]\n");
  for (size_t k = 0; k < steps.size(); ++k) {
    absl::StrAppend(&text, "v", inputs.size() + k, " = ", steps[k].op, "(",
                    absl::StrJoin(steps[k].operands, ", "), ") number ", steps[k].number,
                    steps[k].reads ? " reads" : "", steps[k].forgets ? " forgets" : "", "\n");
  }
  return absl::StrCat(text, "return ", absl::StrJoin(results, ", "), "\n");
}

RandomFunction MakeRandomFunction(uint64_t seed, int steps) {
  Maker maker;
  maker.random.seed(seed);
  const Shape64 base = {1 + maker.Below(5), 1 + maker.Below(70)};
  const int64_t inputs = 1 + maker.Below(3);
  for (int64_t k = 0; k < inputs; ++k) {
    Shape64 shape = base;
    if (maker.Below(3) == 0) shape[static_cast<size_t>(maker.Below(2))] = 1;
    if (maker.Below(5) == 0) shape.erase(shape.begin());
    maker.function.inputs.push_back(shape);
    maker.shapes.push_back(std::move(shape));
    maker.held.push_back(true);
  }
  for (int k = 0; k < steps; ++k) {
    const int64_t kind = maker.Below(16);
    if (kind < 8)
      maker.Binary();
    else if (kind < 12)
      maker.Unary();
    else if (kind < 13)
      maker.Reduce();
    else if (kind < 15)
      maker.Move();
    else
      maker.Softmax();
  }
  const int64_t results = 1 + maker.Below(3);
  maker.function.results.push_back(static_cast<int>(maker.shapes.size()) - 1);
  for (int64_t k = 1; k < results; ++k) maker.function.results.push_back(maker.Value());
  return std::move(maker.function);
}

std::vector<Tensor> RandomInputs(const RandomFunction& function, std::mt19937_64& random) {
  std::vector<Tensor> tensors;
  std::uniform_real_distribution<float> values(-3, 3);
  for (const Shape64& shape : function.inputs) {
    Tensor& tensor = tensors.emplace_back(Tensor::Allocate(DType::kF32, shape));
    auto* const data = static_cast<float*>(tensor.data());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) data[i] = values(random);
  }
  return tensors;
}

std::vector<Array> Compute(const RandomFunction& function, const std::vector<Array>& inputs) {
  std::vector<Array> values = inputs;
  for (const RandomStep& step : function.steps) {
    std::vector<Operand> operands;
    for (const int k : step.operands) {
      operands.push_back(k >= 0 ? Operand(values[static_cast<size_t>(k)]) : Operand(step.number));
    }
    if (operands.size() < 2) operands.emplace_back();
    Array made = Apply(step, operands[0], operands[1]);
    if (step.reads) (void)made.tensor();
    if (step.forgets) values[static_cast<size_t>(step.operands[0])] = Array();
    values.push_back(std::move(made));
  }
  std::vector<Array> results;
  for (const int k : function.results) results.push_back(values[static_cast<size_t>(k)]);
  return results;
}

absl::StatusOr<Tensor> EagerRunner::RunStep(const RandomStep& step,
                                            const std::vector<Tensor>& values) {
  Graph graph;
  graph.name = "step";
  std::vector<ValueId> inputs;
  NamedTensors tensors;
  for (const int k : step.operands) {
    Tensor tensor = Tensor::Allocate(DType::kF32, {});
    if (k >= 0)
      tensor = values[static_cast<size_t>(k)];
    else
      *static_cast<float*>(tensor.data()) = static_cast<float>(step.number);
    const std::string name = absl::StrCat("x", tensors.size());
    inputs.push_back(graph.AddInput(name, DType::kF32, ToShape(tensor.shape())));
    tensors.emplace_back(name, std::move(tensor));
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                        graph.AddNode(*FindOp(step.op), inputs, step.attrs, "", {""}));
  graph.AddOutput(made[0], "y");
  std::unique_ptr<Model>& model = models_[Print(graph)];
  if (model == nullptr) {
    CompileOptions options;
    options.threads = 1;
    options.graph_opt_level = 0;
    options.compile_mode = CompileMode::kNever;
    options.cache.enabled = false;
    KILN_ASSIGN_OR_RETURN(Model compiled, Compile(std::move(graph), options));
    model = std::make_unique<Model>(std::move(compiled));
  }
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results, model->Run(tensors));
  return std::move(results[0]);
}

absl::StatusOr<std::vector<Tensor>> EagerRunner::Run(const RandomFunction& function,
                                                     const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values = inputs;
  for (const RandomStep& step : function.steps) {
    KILN_ASSIGN_OR_RETURN(Tensor made, RunStep(step, values));
    values.push_back(std::move(made));
  }
  std::vector<Tensor> results;
  for (const int k : function.results) results.push_back(values[static_cast<size_t>(k)]);
  return results;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto *const x = static_cast<const float*>(a.data()), *const y = static_cast<const float*>(
                                                                 b.data());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (std::memcmp(&x[i], &y[i], sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace kiln
