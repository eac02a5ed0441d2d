// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM. The product of the inputs with their weights is one matrix product over all
// steps. A few steps are written out one by one, so that the arithmetic of a step is fused like any
// other, and may be with its neighbours'. Many, and a number that the model leaves open, are a loop
// whose body is one step: one program for all lengths.
//
//   products : f32 [t, b, 4h] = matmul(x, W)
//   h1, c1, y = loop(t, , h0, c0, products, R, B) {body = step, carried = 2, ...}
//     step(i, on, h, c, products, R, B): gather(products, i), and CellStep on it
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/onnx/recurrent_cell.h"
#include "graph/op.h"
#include "graph/open_extents.h"

namespace kiln::onnx {
namespace {

// Steps that are written out. A step of a loop costs 3 us more (an LSTM of 8 hidden units: 3.4
// against 0.8, of 64: 11.3 against 8.5), and programs with loops are not kept from start to start;
// but 200 steps that are written out take 0.6 s to compile, and a loop of them 0.03 s.
constexpr int64_t kMostWrittenOut = 256;

// An activation by its ONNX name; Affine, ScaledTanh and other parameters than the usual are not
// there.
absl::StatusOr<const char*> ActivationOp(const std::string& name) {
  static constexpr std::pair<const char*, const char*> kNames[] = {{"Tanh", "tanh"},
                                                                   {"Sigmoid", "sigmoid"},
                                                                   {"Relu", "relu"},
                                                                   {"Softsign", "softsign"},
                                                                   {"Softplus", "softplus"},
                                                                   {"Elu", "elu"},
                                                                   {"LeakyRelu", "leaky_relu"},
                                                                   {"HardSigmoid", "hard_sigmoid"}};
  for (const auto& [onnx, op] : kNames) {
    if (name == onnx) return op;
  }
  return absl::UnimplementedError(absl::StrCat("activation ", name, " is not supported"));
}

// What one direction makes.
struct Made {
  ValueId outputs;       // of all steps, in the order of the inputs: [steps, batch, hidden]
  ValueId hidden, cell;  // the last state: [batch, hidden]
};

// The states before the first step.
Made InitialState(NodeView& n, const Recurrence& r, int64_t direction) {
  const auto state = [&](int k) {
    if (n.has(k)) return OwnPart(n, r, n.in(k), direction);
    return Expand(n, n.Scalar(r.type, 0), {r.batch, r.hidden});
  };
  return {{}, state(5), r.cell == Cell::kLstm ? state(6) : ValueId{}};
}

// [steps, batch, gates * hidden].
ValueId Products(NodeView& n, const Recurrence& r, int64_t direction) {
  const ValueId weights = OwnPart(n, r, n.in(1), direction);
  return n.Op("matmul", {r.x, weights}, {{"trans_b", int64_t{1}}});
}

Made WriteOut(NodeView& n, const Recurrence& r, int64_t direction, int64_t steps) {
  CellStep step(n, r, direction);
  const ValueId products = Products(n, r, direction);
  const Made before = InitialState(n, r, direction);
  step.hidden = before.hidden;
  step.cell = before.cell;
  std::vector<ValueId> outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = r.IsBackwards(direction) ? steps - 1 - i : i;
    const ValueId own = Squeeze(n, Slice(n, products, 0, t, t + 1), {0});
    const ValueId output = step.Next(own, n.Scalar(DType::kI64, static_cast<double>(t)));
    outputs[static_cast<size_t>(t)] = Unsqueeze(n, output, {0});
  }
  const ValueId all = steps == 1 ? outputs[0] : n.Op("concat", outputs, {{"axis", int64_t{0}}});
  return {all, step.hidden, step.cell};
}

// A body in the making, and the values of the graph around that it takes. They have the shapes that
// the operator asks for, which stand there as guards: the body needs none of its own.
struct LoopBody {
  Graph graph;
  std::vector<ValueId> captures = {};

  ValueId Take(const NodeView& n, ValueId outer, const Shape& shape) {
    const Value& value = n.value(outer);
    if (value.constant && value.producer.v < 0)
      return graph.AddConstant(value.name, *value.constant);
    captures.push_back(outer);
    return graph.AddInput(value.name, value.type, shape);
  }
};

// The operands of a step, in the body.
std::vector<ValueId> TakeOperands(const NodeView& n, const Recurrence& r, LoopBody& body) {
  const int64_t d = r.directions, rows = GatesOf(r.cell) * r.hidden;
  std::vector<ValueId> operands(static_cast<size_t>(n.num_inputs()));
  const std::pair<int, Shape> used[] = {
      {2, {d, rows, r.hidden}}, {3, {d, 2 * rows}}, {4, {r.batch}}, {7, {d, 3 * r.hidden}}};
  for (const auto& [k, shape] : used) {
    if (n.has(k)) operands[static_cast<size_t>(k)] = body.Take(n, n.in(k), shape);
  }
  return operands;
}

absl::StatusOr<Made> MakeLoop(NodeView& n, const Recurrence& r, int64_t direction) {
  const bool backwards = r.IsBackwards(direction), lstm = r.cell == Cell::kLstm;
  const ValueId products = Products(n, r, direction);
  const Made before = InitialState(n, r, direction);
  const ValueId trips = ExtentOf(n, r.x, 0, DType::kI64);
  KILN_RETURN_IF_ERROR(n.status());

  LoopBody body;
  body.graph.name = "step";
  const Shape state = {r.batch, r.hidden};
  const ValueId i = body.graph.AddInput("iteration", DType::kI64, {});
  const ValueId on = body.graph.AddInput("condition", DType::kBool, {});
  const ValueId hidden = body.graph.AddInput("hidden", r.type, state);
  const ValueId cell = lstm ? body.graph.AddInput("cell", r.type, state) : ValueId{};
  const ValueId rows = body.Take(n, products, {r.steps, r.batch, GatesOf(r.cell) * r.hidden});
  NodeView inner = n.Inside(body.graph, TakeOperands(n, r, body));
  CellStep step(inner, r, direction);
  step.hidden = hidden;
  step.cell = cell;
  ValueId t = i;
  if (backwards) {
    const ValueId last =
        inner.Op("sub", {ExtentOf(inner, rows, 0, DType::kI64), inner.Scalar(DType::kI64, 1)});
    t = inner.Op("sub", {last, i});
  }
  const ValueId output = step.Next(inner.Op("gather", {rows, t}, {{"axis", int64_t{0}}}), t);
  KILN_RETURN_IF_ERROR(inner.status());
  // That there is a step to look up holds wherever there is one; under no other guard is the body
  // that of all runs. Numbers never need one.
  std::vector<Guard>& guards = body.graph.mutable_guards();
  std::erase(guards, Guard::AtLeast(r.steps, 1));
  if (!guards.empty())
    return OpenExtentsError(absl::StrCat("a step needs ", guards.front().ToString()));

  body.graph.AddOutput(on, "condition");
  body.graph.AddOutput(step.hidden, "hidden_after");
  if (lstm) body.graph.AddOutput(step.cell, "cell_after");
  if (n.wants(0)) body.graph.AddOutput(output, "output");
  std::vector<ValueId> operands = {trips, {}, before.hidden};
  Shape extents = state;
  if (lstm) {
    operands.push_back(before.cell);
    extents.insert(extents.end(), state.begin(), state.end());
  }
  if (n.wants(0)) extents.insert(extents.end(), {r.steps, r.batch, r.hidden});
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  const int64_t carried = lstm ? 2 : 1;
  std::vector<ValueId> made = n.Ops("loop", std::move(operands),
                                    {{"body", std::make_shared<const Graph>(std::move(body.graph))},
                                     {"carried", carried},
                                     {"extents", DimsValue(extents)}},
                                    static_cast<size_t>(carried) + (n.wants(0) ? 1 : 0));
  KILN_RETURN_IF_ERROR(n.status());
  Made result = {{}, made[0], lstm ? made[1] : ValueId{}};
  if (!n.wants(0)) return result;
  result.outputs = backwards ? Slice(n, made.back(), 0, -1, INT64_MIN, -1) : made.back();
  return result;
}

absl::Status ReadActivations(NodeView& n, Recurrence& r) {
  std::vector<std::string> names = n.Texts("activations");
  if (n.HasAttr("activation_alpha") || n.HasAttr("activation_beta"))
    return absl::UnimplementedError("parameters of activations are not supported");
  if (names.empty()) {
    for (int64_t d = 0; d < r.directions; ++d) {
      if (r.cell != Cell::kRnn) names.push_back("Sigmoid");
      names.push_back("Tanh");
      if (r.cell == Cell::kLstm) names.push_back("Tanh");
    }
  }
  const int64_t each = r.cell == Cell::kRnn ? 1 : r.cell == Cell::kGru ? 2 : 3;
  if (static_cast<int64_t>(names.size()) != each * r.directions) {
    return absl::InvalidArgumentError(absl::StrCat("has ", names.size(), " activations, expected ",
                                                   each, " for each of ", r.directions,
                                                   " directions"));
  }
  for (const std::string& name : names) {
    KILN_ASSIGN_OR_RETURN(r.activations.emplace_back(), ActivationOp(name));
  }
  return absl::OkStatus();
}

// That the operands have the shapes that ONNX gives them; x is [steps, batch, inputs].
absl::Status CheckOperands(NodeView& n, const Recurrence& r) {
  const int64_t d = r.directions, h = r.hidden, rows = GatesOf(r.cell) * h;
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(1), {d, rows, ShapeOf(n, r.x)[2]}, "W"));
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(2), {d, rows, h}, "R"));
  const Shape state = {d, r.batch, h};
  const std::tuple<int, Shape, const char*> optional[] = {{3, {d, 2 * rows}, "B"},
                                                          {4, {r.batch}, "sequence_lens"},
                                                          {5, state, "initial_h"},
                                                          {6, state, "initial_c"},
                                                          {7, {d, 3 * h}, "P"}};
  for (const auto& [k, shape, what] : optional) {
    if (n.has(k)) KILN_RETURN_IF_ERROR(RequireShape(n, n.in(k), shape, what));
  }
  return absl::OkStatus();
}

absl::StatusOr<Recurrence> ReadRecurrence(NodeView& n, Cell cell, bool batch_first) {
  Recurrence r;
  r.cell = cell;
  const std::string direction = n.Text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return absl::InvalidArgumentError(absl::StrCat("direction \"", direction, "\" is not known"));
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reverse = direction == "reverse";
  r.clip = n.Float("clip", 0);
  r.input_forget = n.Int("input_forget", 0) != 0;
  r.reset_after = n.Int("linear_before_reset", 0) != 0;
  n.Ignore("output_sequence");  // before operator set 7: whether output 0 is wanted
  n.Ignore("hidden_size");      // the weights tell
  KILN_RETURN_IF_ERROR(ReadActivations(n, r));
  if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3)
    return absl::InvalidArgumentError("input and weights must have three axes");
  const std::optional<int64_t> hidden = n.value(2).shape[2].constant();
  r.type = ComputeType(n.value(0).type);
  r.x = Cast(n, batch_first ? Transpose(n, n.in(0), {1, 0, 2}) : n.in(0), r.type);
  const Shape shape = ShapeOf(n, r.x);
  KILN_RETURN_IF_ERROR(n.status());
  if (!hidden) return OpenExtentsError("the last extent of R, the hidden size, must be known");
  r.hidden = *hidden;
  r.steps = shape[0];
  r.batch = shape[1];
  KILN_RETURN_IF_ERROR(CheckOperands(n, r));
  return r;
}

absl::Status Recurrent(NodeView& n, Cell cell) {
  KILN_RETURN_IF_ERROR(n.Need(3, cell == Cell::kLstm ? 8 : 6));
  const bool batch_first = n.Int("layout", 0) != 0;
  if (batch_first && (n.has(5) || n.has(6)))
    return absl::UnimplementedError("layout 1 with an initial state is not supported");
  KILN_ASSIGN_OR_RETURN(const Recurrence r, ReadRecurrence(n, cell, batch_first));
  const DType stored = n.value(0).type;
  const std::optional<int64_t> steps = r.steps.constant();
  const bool write_out = steps && *steps >= 1 && *steps <= kMostWrittenOut;
  std::vector<ValueId> outputs, hidden, cells;  // [steps, 1, batch, hidden], [1, batch, hidden]
  for (int64_t d = 0; d < r.directions; ++d) {
    Made made;
    if (write_out) {
      made = WriteOut(n, r, d, *steps);
    } else {
      KILN_ASSIGN_OR_RETURN(made, MakeLoop(n, r, d));
    }
    if (n.wants(0)) outputs.push_back(Unsqueeze(n, made.outputs, {1}));
    hidden.push_back(Unsqueeze(n, made.hidden, {0}));
    if (cell == Cell::kLstm) cells.push_back(Unsqueeze(n, made.cell, {0}));
    KILN_RETURN_IF_ERROR(n.status());
  }
  const auto give = [&](int k, std::vector<ValueId> parts, int64_t axis,
                        const Axes& batch_first_perm) -> absl::Status {
    if (!n.wants(k)) return absl::OkStatus();
    ValueId all = parts[0];
    if (parts.size() > 1) all = n.Op("concat", std::move(parts), {{"axis", axis}});
    if (batch_first) all = Transpose(n, all, batch_first_perm);
    return n.Give(k, n.Op("cast", {all}, {{"to", stored}}));
  };
  KILN_RETURN_IF_ERROR(give(1, std::move(hidden), 0, {1, 0, 2}));
  if (cell == Cell::kLstm) KILN_RETURN_IF_ERROR(give(2, std::move(cells), 0, {1, 0, 2}));
  return give(0, std::move(outputs), 1, {2, 0, 1, 3});
}

absl::Status Rnn(NodeView& n) { return Recurrent(n, Cell::kRnn); }
absl::Status Gru(NodeView& n) { return Recurrent(n, Cell::kGru); }
absl::Status Lstm(NodeView& n) { return Recurrent(n, Cell::kLstm); }

constexpr Converter kRecurrentRows[] = {
    {"GRU", 7, Gru},
    {"LSTM", 7, Lstm},
    {"RNN", 7, Rnn},
};

}  // namespace

std::span<const Converter> RecurrentConverters() { return kRecurrentRows; }

}  // namespace kiln::onnx
