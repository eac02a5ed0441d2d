// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/random_function.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "kiln/trace_ops.h"

namespace kiln {
namespace {

using Shape64 = std::vector<int64_t>;

int64_t NumElements(const Shape64& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Shapes of one value, by variant.
using AllShapes = std::vector<Shape64>;

struct Maker {
  std::mt19937_64 random;
  RandomFunction function;
  std::vector<AllShapes> shapes;
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
  const AllShapes& ShapesOf(int value) const { return shapes[static_cast<size_t>(value)]; }
  size_t RankOf(int value) const { return ShapesOf(value)[0].size(); }

  // The common shapes, or nothing.
  static std::optional<AllShapes> Broadcast(const AllShapes& a, const AllShapes& b) {
    AllShapes all;
    for (size_t v = 0; v < a.size(); ++v) {
      Shape64& out = all.emplace_back(std::max(a[v].size(), b[v].size()), 1);
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t x = i < a[v].size() ? a[v][a[v].size() - 1 - i] : 1;
        const int64_t y = i < b[v].size() ? b[v][b[v].size() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return std::nullopt;
        out[out.size() - 1 - i] = x == 1 ? y : x;
      }
    }
    return all;
  }

  void Input(const Shapes& extents) {
    AllShapes all = extents;
    if (Below(3) == 0) {
      const auto axis = static_cast<size_t>(Below(2));
      for (Shape64& shape : all) shape[axis] = 1;
    }
    if (Below(5) == 0)
      for (Shape64& shape : all) shape.erase(shape.begin());
    function.inputs.push_back(all[0]);
    for (size_t v = 1; v < all.size(); ++v) function.variants[v - 1].push_back(all[v]);
    shapes.push_back(std::move(all));
    held.push_back(true);
  }

  void Add(RandomStep step, AllShapes all) {
    step.reads = Below(25) == 0;
    if (Below(6) == 0 && step.operands[0] >= static_cast<int>(function.inputs.size())) {
      step.forgets = true;
      held[static_cast<size_t>(step.operands[0])] = false;
    }
    function.steps.push_back(std::move(step));
    shapes.push_back(std::move(all));
    held.push_back(true);
  }

  void Binary() {
    static constexpr const char* kOps[] = {"add", "sub", "mul", "div", "max", "min"};
    RandomStep step;
    step.op = kOps[Below(6)];
    const int a = Value();
    step.operands = {a};
    AllShapes all = ShapesOf(a);
    step.number = static_cast<double>(Below(64) - 32) / 8;
    int b = -1;
    for (int tries = 0; tries < 4 && b < 0 && Below(3) > 0; ++tries) {
      const int candidate = Value();
      if (const auto common = Broadcast(all, ShapesOf(candidate))) {
        b = candidate;
        all = *common;
      }
    }
    step.operands.push_back(b);
    if (b >= 0 && Below(8) == 0) std::swap(step.operands[0], step.operands[1]);
    Add(std::move(step), std::move(all));
  }

  void Unary() {
    static constexpr const char* kOps[] = {"neg",  "exp",      "tanh", "sigmoid", "sqrt",
                                           "relu", "softsign", "abs",  "floor"};
    const int a = Value();
    Add({.op = kOps[Below(9)], .operands = {a}}, ShapesOf(a));
  }

  void Reduce() {
    static constexpr const char* kOps[] = {"reduce_sum", "reduce_max", "reduce_mean", "reduce_min"};
    const int a = Value();
    AllShapes all = ShapesOf(a);
    if (RankOf(a) == 0) return Unary();
    const int64_t axis = Below(static_cast<int64_t>(RankOf(a))), keep = Below(2);
    for (Shape64& shape : all) {
      if (keep == 1)
        shape[static_cast<size_t>(axis)] = 1;
      else
        shape.erase(shape.begin() + axis);
    }
    Add({.op = kOps[Below(4)],
         .operands = {a},
         .attrs = {{"axes", std::vector<int64_t>{axis}}, {"keepdims", keep}}},
        std::move(all));
  }

  void Move() {
    const int a = Value();
    AllShapes all = ShapesOf(a);
    if (RankOf(a) == 0) return Unary();
    const int64_t kind = Below(5);
    if (kind < 2) {
      for (Shape64& shape : all) std::reverse(shape.begin(), shape.end());
      return Add({.op = "transpose", .operands = {a}}, std::move(all));
    }
    if (kind == 2) {
      for (Shape64& shape : all) shape = {NumElements(shape)};
      return Add({.op = "reshape", .operands = {a}}, std::move(all));
    }
    const int64_t axis = Below(static_cast<int64_t>(RankOf(a)));
    int64_t most = INT64_MAX;  // elements that all variants can do without
    for (const Shape64& shape : all)
      most = std::min(most, std::max<int64_t>(shape[static_cast<size_t>(axis)] - 1, 0));
    const int64_t start = Below(most + 1), less = Below(most - start + 1);
    for (Shape64& shape : all) shape[static_cast<size_t>(axis)] -= start + less;
    Add({.op = "slice",
         .operands = {a},
         .attrs = {{"starts", std::vector<int64_t>{start}}, {"axes", std::vector<int64_t>{axis}}},
         .less = less},
        std::move(all));
  }

  void Softmax() {
    const int a = Value();
    if (RankOf(a) == 0) return Unary();
    Add({.op = "softmax", .operands = {a}, .attrs = {{"axis", int64_t{-1}}}}, ShapesOf(a));
  }
};

// The attributes of a step on an operand of this shape: a slice ends as many elements before the
// end as it says, whatever the extent is, and a reshape makes one axis of all.
Attrs AttrsFor(const RandomStep& step, const Shape64& shape) {
  Attrs attrs = step.attrs;
  if (step.op == "reshape") {
    attrs["shape"] = std::vector<int64_t>{NumElements(shape)};
    attrs["allowzero"] = int64_t{1};
  }
  if (step.op != "slice") return attrs;
  const int64_t axis = std::get<std::vector<int64_t>>(attrs.at("axes"))[0];
  // An array with an error has no axes.
  const int64_t extent = shape.empty() ? 0 : shape[static_cast<size_t>(axis)];
  attrs["ends"] = std::vector<int64_t>{extent - step.less};
  return attrs;
}

Ints ListOf(const Attrs& attrs, const char* name) {
  const auto found = attrs.find(name);
  return found == attrs.end() ? Ints() : Ints(std::get<std::vector<int64_t>>(found->second));
}
int64_t IntOf(const Attrs& attrs, const char* name) { return std::get<int64_t>(attrs.at(name)); }

using Unary = Array (*)(const Operand&, Location);
using Binary = Array (*)(const Operand&, const Operand&, Location);
using Reduction = Array (*)(const Operand&, const ReduceSumAttributes&, Location);

// The same two, of what the array says of its extents: a program has them for all extents.
Ints FlatOf(const ArrayShape& shape) {
  ArrayDim all = 1;
  for (const ArrayDim& extent : shape) all = all * extent;
  return {all};
}
Ints EndOf(const RandomStep& step, const ArrayShape& shape) {
  const int64_t axis = std::get<std::vector<int64_t>>(step.attrs.at("axes"))[0];
  return {shape[static_cast<size_t>(axis)] - step.less};
}

// Half of the ends are numbers.
Array Apply(const RandomStep& step, const Attrs& attrs, const ArrayShape& shape, const Operand& a,
            const Operand& b) {
  static const std::map<std::string, Unary> kUnary = {
      {"neg", neg},           {"exp", exp}, {"tanh", tanh},   {"sigmoid", sigmoid}, {"sqrt", sqrt},
      {"softsign", softsign}, {"abs", abs}, {"floor", floor}, {"relu", relu}};
  static const std::map<std::string, Binary> kBinary = {
      {"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}, {"pow", pow}};
  const Location here = Location::Here();
  if (const auto found = kUnary.find(step.op); found != kUnary.end()) return found->second(a, here);
  if (const auto found = kBinary.find(step.op); found != kBinary.end())
    return found->second(a, b, here);
  if (step.op == "max") return max(a, b);
  if (step.op == "min") return min(a, b);
  const Ints axes = ListOf(attrs, "axes");
  if (step.op == "reduce_sum")
    return reduce_sum(a, {.axes = axes, .keepdims = IntOf(attrs, "keepdims")});
  if (step.op == "reduce_max")
    return reduce_max(a, {.axes = axes, .keepdims = IntOf(attrs, "keepdims")});
  if (step.op == "reduce_min")
    return reduce_min(a, {.axes = axes, .keepdims = IntOf(attrs, "keepdims")});
  if (step.op == "reduce_mean")
    return reduce_mean(a, {.axes = axes, .keepdims = IntOf(attrs, "keepdims")});
  if (step.op == "transpose") return transpose(a);
  if (step.op == "softmax") return softmax(a, {.axis = -1});
  if (step.op == "reshape") return reshape(a, {.shape = FlatOf(shape), .allowzero = 1});
  const bool number = shape.empty() || step.operands[0] % 2 == 0;
  return slice(a, {.starts = ListOf(attrs, "starts"),
                   .ends = number ? ListOf(attrs, "ends") : EndOf(step, shape),
                   .axes = axes});
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

RandomFunction MakeRandomFunction(uint64_t seed, const RandomFunctionOptions& options) {
  Maker maker;
  maker.random.seed(seed);
  Shapes extents = {{1 + maker.Below(5), 1 + maker.Below(70)}};
  if (!options.extents.empty()) extents = options.extents;
  maker.function.variants.resize(extents.size() - 1);
  const int64_t inputs = options.inputs > 0 ? options.inputs : 1 + maker.Below(3);
  for (int64_t k = 0; k < inputs; ++k) maker.Input(extents);
  for (int k = 0; k < options.steps; ++k) {
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

std::vector<Tensor> RandomTensors(const Shapes& shapes, std::mt19937_64& random) {
  std::vector<Tensor> tensors;
  std::uniform_real_distribution<float> values(-3, 3);
  for (const Shape64& shape : shapes) {
    Tensor& tensor = tensors.emplace_back(Tensor::Allocate(DType::kF32, shape));
    auto* const data = static_cast<float*>(tensor.data());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) data[i] = values(random);
  }
  return tensors;
}

std::vector<Tensor> RandomInputs(const RandomFunction& function, std::mt19937_64& random) {
  return RandomTensors(function.inputs, random);
}

std::vector<Array> Compute(const RandomFunction& function, const std::vector<Array>& inputs,
                           const StepHook& hook) {
  std::vector<Array> values = inputs;
  for (size_t k = 0; k < function.steps.size(); ++k) {
    if (hook) hook(k, values);
    const RandomStep& step = function.steps[k];
    std::vector<Operand> operands;
    for (const int v : step.operands) {
      operands.push_back(v >= 0 ? Operand(values[static_cast<size_t>(v)]) : Operand(step.number));
    }
    if (operands.size() < 2) operands.emplace_back();
    const Array& first = values[static_cast<size_t>(std::max(step.operands[0], 0))];
    const Attrs attrs = AttrsFor(step, first.extents());
    Array made = Apply(step, attrs, first.shape(), operands[0], operands[1]);
    if (step.reads) (void)made.tensor();
    if (step.forgets) values[static_cast<size_t>(step.operands[0])] = Array();
    values.push_back(std::move(made));
  }
  if (hook) hook(function.steps.size(), values);
  std::vector<Array> results;
  for (const int k : function.results) results.push_back(values[static_cast<size_t>(k)]);
  return results;
}

namespace {

// That one operation gives what the interpreter does, which computes in double: to some ulps, of
// the largest operand where elements are added. What is beyond f32's range on the way is left out.
absl::Status CheckByInterpreter(const Graph& graph, const std::vector<Tensor>& operands,
                                const Tensor& got) {
  double largest = 0;
  for (const Tensor& operand : operands) {
    const auto* const x = static_cast<const float*>(operand.data());
    for (int64_t i = 0; i < operand.num_elements(); ++i)
      largest = std::max(largest, std::isfinite(x[i]) ? std::abs(double{x[i]}) : 1e38);
  }
  const bool adds = absl::StartsWith(graph.nodes()[0].op->name, "reduce_") ||
                    absl::StartsWith(graph.nodes()[0].op->name, "softmax");
  if (adds && largest > 1e30) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> want, Interpret(graph, operands));
  const Comparison found = kiln::Compare(got, want[0], 1e-5, adds ? 1e-5 * largest : 1e-37);
  if (found.ok) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the interpreter differs: ", found.what, "\n", Print(graph)));
}

}  // namespace

absl::StatusOr<Tensor> EagerRunner::RunStep(const RandomStep& step,
                                            const std::vector<Tensor>& values) {
  Graph graph;
  graph.name = "step";
  std::vector<ValueId> inputs;
  std::vector<Tensor> operands;
  NamedTensors tensors;
  for (const int k : step.operands) {
    Tensor tensor = Tensor::Allocate(DType::kF32, {});
    if (k >= 0)
      tensor = values[static_cast<size_t>(k)];
    else
      *static_cast<float*>(tensor.data()) = static_cast<float>(step.number);
    const std::string name = absl::StrCat("x", tensors.size());
    inputs.push_back(graph.AddInput(name, tensor.dtype(), ToShape(tensor.shape())));
    operands.push_back(tensor);
    tensors.emplace_back(name, std::move(tensor));
  }
  KILN_ASSIGN_OR_RETURN(
      const std::vector<ValueId> made,
      graph.AddNode(*FindOp(step.op), inputs, AttrsFor(step, operands[0].shape()), "", {""}));
  graph.AddOutput(made[0], "y");
  std::unique_ptr<Model>& model = models_[Print(graph)];
  const Graph interpreted = graph;
  if (model == nullptr) {
    CompileOptions options = OnVm();
    options.graph_opt_level = 0;
    KILN_ASSIGN_OR_RETURN(Model compiled, Compile(std::move(graph), options));
    model = std::make_unique<Model>(std::move(compiled));
  }
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> results, model->Run(tensors));
  if (results[0].dtype() == DType::kF32)
    KILN_RETURN_IF_ERROR(CheckByInterpreter(interpreted, operands, results[0]));
  return std::move(results[0]);
}

absl::StatusOr<std::vector<Tensor>> EagerRunner::RunAll(const RandomFunction& function,
                                                        const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values;
  for (const Tensor& input : inputs) values.push_back(input.Clone());
  for (const RandomStep& step : function.steps) {
    KILN_ASSIGN_OR_RETURN(Tensor made, RunStep(step, values));
    values.push_back(std::move(made));
  }
  return values;
}

absl::StatusOr<std::vector<Tensor>> EagerRunner::Run(const RandomFunction& function,
                                                     const std::vector<Tensor>& inputs) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> values, RunAll(function, inputs));
  std::vector<Tensor> results;
  for (const int k : function.results) results.push_back(values[static_cast<size_t>(k)]);
  return results;
}

bool SameBits(const Tensor& a, const Tensor& b) { return CompareBits(a, b).ok; }

}  // namespace kiln
