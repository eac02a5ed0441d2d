// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, written out step by step, so that the arithmetic of a step is fused like any
// other. The product of the inputs with their weights is one matrix product over all steps. The
// number of steps must be known.
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
#include "graph/op.h"
#include "graph/open_extents.h"

namespace kiln::onnx {
namespace {

constexpr int64_t kMostSteps = 1024;  // of all directions together

enum class Cell { kRnn, kGru, kLstm };

int64_t GatesOf(Cell cell) { return cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4; }

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

// The network: operands in the compute type, and what attributes say.
struct Recurrence {
  Cell cell = Cell::kRnn;
  int64_t steps = 0, hidden = 0, directions = 1;
  double clip = 0;
  bool reverse = false, input_forget = false, reset_after = false;
  DType type = DType::kF32;
  Dim batch;
  ValueId x;       // [steps, batch, inputs]
  ValueId length;  // [batch, 1], i64; invalid: all steps
  std::vector<const char*> activations;
};

// One direction of it.
class Direction {
 public:
  Direction(NodeView& n, const Recurrence& r, int64_t number)
      : n_(n), r_(r), number_(number), gates_(GatesOf(r.cell)) {}

  // Outputs of all steps in their order: [1, batch, hidden] each.
  std::vector<ValueId> Run() {
    const bool backwards = r_.reverse || number_ == 1;
    weights_ = Own(n_.in(2));
    if (n_.has(3)) {
      const ValueId bias = Own(n_.in(3));
      input_bias_ = Slice(n_, bias, 0, 0, gates_ * r_.hidden);
      hidden_bias_ = Slice(n_, bias, 0, gates_ * r_.hidden, 2 * gates_ * r_.hidden);
    }
    if (r_.cell == Cell::kLstm && n_.has(7)) peepholes_ = Own(n_.in(7));
    const ValueId inputs = Matmul(r_.x, Own(n_.in(1)));  // [steps, batch, gates * hidden]
    hidden = Initial(5);
    cell = r_.cell == Cell::kLstm ? Initial(6) : ValueId{};
    std::vector<ValueId> outputs(static_cast<size_t>(r_.steps));
    for (int64_t i = 0; i < r_.steps; ++i) {
      const int64_t t = backwards ? r_.steps - 1 - i : i;
      const ValueId step = Squeeze(n_, Slice(n_, inputs, 0, t, t + 1), {0});
      outputs[static_cast<size_t>(t)] = Unsqueeze(n_, Step(step, t), {0});
    }
    return outputs;
  }

  ValueId hidden, cell;  // the state: [batch, hidden]

 private:
  // This direction's part of an operand, in the compute type.
  ValueId Own(ValueId operand) {
    return Cast(n_, Squeeze(n_, Slice(n_, operand, 0, number_, number_ + 1), {0}), r_.type);
  }
  ValueId Initial(int k) {
    if (n_.has(k)) return Own(n_.in(k));
    return Expand(n_, n_.Scalar(r_.type, 0), {r_.batch, r_.hidden});
  }
  ValueId Matmul(ValueId a, ValueId b) {
    return n_.Op("matmul", {a, b}, {{"trans_b", int64_t{1}}});
  }
  ValueId Add(ValueId a, ValueId b) { return b.valid() ? n_.Op("add", {a, b}) : a; }
  ValueId Mul(ValueId a, ValueId b) { return n_.Op("mul", {a, b}); }
  ValueId Gate(ValueId all, int64_t axis, int64_t gate) {
    return all.valid() ? Slice(n_, all, axis, gate * r_.hidden, (gate + 1) * r_.hidden) : all;
  }
  ValueId Activate(int which, ValueId x) {
    if (r_.clip > 0)
      x = n_.Op("clip", {x, n_.Scalar(r_.type, -r_.clip), n_.Scalar(r_.type, r_.clip)});
    const auto at = static_cast<size_t>(which) + static_cast<size_t>(number_) *
                                                     r_.activations.size() /
                                                     static_cast<size_t>(r_.directions);
    return n_.Op(r_.activations[at], {x});
  }

  // One step from the product of its inputs; gives the output of the step.
  ValueId Step(ValueId inputs, int64_t t) {
    const ValueId before = hidden, cell_before = cell;
    inputs = Add(inputs, input_bias_);
    if (r_.cell == Cell::kRnn) {
      hidden = Activate(0, n_.Op("add", {inputs, Add(Matmul(hidden, weights_), hidden_bias_)}));
    } else if (r_.cell == Cell::kGru) {
      GruStep(inputs);
    } else {
      LstmStep(n_.Op("add", {inputs, Add(Matmul(hidden, weights_), hidden_bias_)}));
    }
    if (!r_.length.valid()) return hidden;
    const ValueId runs = n_.Op("less", {n_.Scalar(DType::kI64, static_cast<double>(t)), r_.length});
    const ValueId output = n_.Op("where", {runs, hidden, n_.Scalar(r_.type, 0)});
    hidden = n_.Op("where", {runs, hidden, before});
    if (cell.valid()) cell = n_.Op("where", {runs, cell, cell_before});
    return output;
  }

  // Gates: update, reset, new.
  void GruStep(ValueId inputs) {
    const auto sum = [&](int64_t gate, ValueId state) {
      return Add(Matmul(state, Gate(weights_, 0, gate)), Gate(hidden_bias_, 0, gate));
    };
    const ValueId update = Activate(0, n_.Op("add", {Gate(inputs, 1, 0), sum(0, hidden)}));
    const ValueId reset = Activate(0, n_.Op("add", {Gate(inputs, 1, 1), sum(1, hidden)}));
    const ValueId past = r_.reset_after ? Mul(reset, sum(2, hidden)) : sum(2, Mul(reset, hidden));
    const ValueId fresh = Activate(1, n_.Op("add", {Gate(inputs, 1, 2), past}));
    const ValueId rest = n_.Op("sub", {n_.Scalar(r_.type, 1), update});
    hidden = n_.Op("add", {Mul(rest, fresh), Mul(update, hidden)});
  }

  // Gates: input, output, forget, cell.
  void LstmStep(ValueId sums) {
    const auto peep = [&](int64_t which, ValueId state) {
      const ValueId factor = Gate(peepholes_, 0, which);
      return factor.valid() ? Mul(factor, state) : ValueId{};
    };
    const ValueId in = Activate(0, Add(Gate(sums, 1, 0), peep(0, cell)));
    const ValueId forget = r_.input_forget ? n_.Op("sub", {n_.Scalar(r_.type, 1), in})
                                           : Activate(0, Add(Gate(sums, 1, 2), peep(2, cell)));
    const ValueId fresh = Activate(1, Gate(sums, 1, 3));
    cell = n_.Op("add", {Mul(forget, cell), Mul(in, fresh)});
    const ValueId out = Activate(0, Add(Gate(sums, 1, 1), peep(1, cell)));
    hidden = Mul(out, n_.Op(r_.activations[ActivationOfCell()], {cell}));
  }
  size_t ActivationOfCell() const {
    return 2 + static_cast<size_t>(number_) * r_.activations.size() /
                   static_cast<size_t>(r_.directions);
  }

  NodeView& n_;
  const Recurrence& r_;
  int64_t number_, gates_;
  ValueId weights_, input_bias_, hidden_bias_, peepholes_;
};

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
  const std::optional<int64_t> steps = shape.empty() ? std::nullopt : shape[0].constant();
  r.hidden = hidden.value_or(0);
  r.steps = steps.value_or(0);
  const int64_t most = kMostSteps / r.directions;
  if (!hidden || !steps || r.steps < 1 || r.steps > most) {
    const std::string why = absl::StrCat("the number of steps must be known, and at most ", most);
    // Only numbers of the inputs tell whether its operands go together.
    if (!shape.empty() && !(hidden && steps)) return OpenExtentsError(why);
    return absl::UnimplementedError(why);
  }
  r.batch = shape[1];
  KILN_RETURN_IF_ERROR(CheckOperands(n, r));
  if (n.has(4)) r.length = Unsqueeze(n, Cast(n, n.in(4), DType::kI64), {1});
  return r;
}

absl::Status Recurrent(NodeView& n, Cell cell) {
  KILN_RETURN_IF_ERROR(n.Need(3, cell == Cell::kLstm ? 8 : 6));
  const bool batch_first = n.Int("layout", 0) != 0;
  if (batch_first && (n.has(5) || n.has(6)))
    return absl::UnimplementedError("layout 1 with an initial state is not supported");
  KILN_ASSIGN_OR_RETURN(const Recurrence r, ReadRecurrence(n, cell, batch_first));
  const DType stored = n.value(0).type;
  std::vector<std::vector<ValueId>> outputs;
  std::vector<ValueId> hidden, cells;
  for (int64_t d = 0; d < r.directions; ++d) {
    Direction direction(n, r, d);
    outputs.push_back(direction.Run());
    hidden.push_back(Unsqueeze(n, direction.hidden, {0}));
    if (cell == Cell::kLstm) cells.push_back(Unsqueeze(n, direction.cell, {0}));
    KILN_RETURN_IF_ERROR(n.status());
  }
  const auto join = [&](std::vector<ValueId> parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : n.Op("concat", std::move(parts), {{"axis", axis}});
  };
  const auto give = [&](int k, const std::vector<ValueId>& states) -> absl::Status {
    if (!n.wants(k)) return absl::OkStatus();
    const ValueId all = join(states, 0);
    const ValueId laid = batch_first ? Transpose(n, all, {1, 0, 2}) : all;
    return n.Give(k, n.Op("cast", {laid}, {{"to", stored}}));
  };
  KILN_RETURN_IF_ERROR(give(1, hidden));
  if (cell == Cell::kLstm) KILN_RETURN_IF_ERROR(give(2, cells));
  std::vector<ValueId> ways;  // [steps, 1, batch, hidden] each
  for (const std::vector<ValueId>& steps : outputs)
    ways.push_back(Unsqueeze(n, join(steps, 0), {1}));
  ValueId y = join(std::move(ways), 1);
  if (batch_first) y = Transpose(n, y, {2, 0, 1, 3});
  return n.Emit("cast", {y}, {{"to", stored}});
}

absl::Status Rnn(NodeView& n) { return Recurrent(n, Cell::kRnn); }
absl::Status Gru(NodeView& n) { return Recurrent(n, Cell::kGru); }
absl::Status Lstm(NodeView& n) { return Recurrent(n, Cell::kLstm); }

constexpr Converter kRows[] = {
    {"GRU", 7, Gru},
    {"LSTM", 7, Lstm},
    {"RNN", 7, Rnn},
};

}  // namespace

std::span<const Converter> RecurrentConverters() { return kRows; }

}  // namespace kiln::onnx
