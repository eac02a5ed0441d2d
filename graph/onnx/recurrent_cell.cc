// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/recurrent_cell.h"

#include "graph/onnx/compose.h"

namespace kiln::onnx {
namespace {

ValueId Matmul(NodeView& n, ValueId a, ValueId b) {
  return n.Op("matmul", {a, b}, {{"trans_b", int64_t{1}}});
}

}  // namespace

ValueId OwnPart(NodeView& n, const Recurrence& r, ValueId operand, int64_t direction) {
  return Cast(n, Squeeze(n, Slice(n, operand, 0, direction, direction + 1), {0}), r.type);
}

CellStep::CellStep(NodeView& n, const Recurrence& r, int64_t direction)
    : n_(n), r_(r), direction_(direction) {
  weights_ = OwnPart(n, r, n.in(2), direction);
  if (n.has(3)) {
    const ValueId bias = OwnPart(n, r, n.in(3), direction);
    const int64_t rows = GatesOf(r.cell) * r.hidden;
    input_bias_ = Slice(n, bias, 0, 0, rows);
    hidden_bias_ = Slice(n, bias, 0, rows, 2 * rows);
  }
  if (n.has(4)) length_ = Unsqueeze(n, Cast(n, n.in(4), DType::kI64), {1});
  if (r.cell == Cell::kLstm && n.has(7)) peepholes_ = OwnPart(n, r, n.in(7), direction);
}

ValueId CellStep::Gate(ValueId all, int64_t axis, int64_t gate) {
  return all.valid() ? Slice(n_, all, axis, gate * r_.hidden, (gate + 1) * r_.hidden) : all;
}

const char* CellStep::Activation(size_t which) const {
  const size_t each = r_.activations.size() / static_cast<size_t>(r_.directions);
  return r_.activations[which + static_cast<size_t>(direction_) * each];
}

ValueId CellStep::Activate(size_t which, ValueId x) {
  if (r_.clip > 0)
    x = n_.Op("clip", {x, n_.Scalar(r_.type, -r_.clip), n_.Scalar(r_.type, r_.clip)});
  return n_.Op(Activation(which), {x});
}

ValueId CellStep::Next(ValueId inputs, ValueId t) {
  const ValueId before = hidden, cell_before = cell;
  inputs = Add(inputs, input_bias_);
  const auto sums = [&] {
    return n_.Op("add", {inputs, Add(Matmul(n_, hidden, weights_), hidden_bias_)});
  };
  if (r_.cell == Cell::kRnn) {
    hidden = Activate(0, sums());
  } else if (r_.cell == Cell::kGru) {
    GruStep(inputs);
  } else {
    LstmStep(sums());
  }
  if (!length_.valid()) return hidden;
  const ValueId runs = n_.Op("less", {t, length_});
  const ValueId output = n_.Op("where", {runs, hidden, n_.Scalar(r_.type, 0)});
  hidden = n_.Op("where", {runs, hidden, before});
  if (cell.valid()) cell = n_.Op("where", {runs, cell, cell_before});
  return output;
}

// Gates: update, reset, new.
void CellStep::GruStep(ValueId inputs) {
  const auto sum = [&](int64_t gate, ValueId state) {
    return Add(Matmul(n_, state, Gate(weights_, 0, gate)), Gate(hidden_bias_, 0, gate));
  };
  const ValueId update = Activate(0, n_.Op("add", {Gate(inputs, 1, 0), sum(0, hidden)}));
  const ValueId reset = Activate(0, n_.Op("add", {Gate(inputs, 1, 1), sum(1, hidden)}));
  const ValueId past = r_.reset_after ? Mul(reset, sum(2, hidden)) : sum(2, Mul(reset, hidden));
  const ValueId fresh = Activate(1, n_.Op("add", {Gate(inputs, 1, 2), past}));
  const ValueId rest = n_.Op("sub", {n_.Scalar(r_.type, 1), update});
  hidden = n_.Op("add", {Mul(rest, fresh), Mul(update, hidden)});
}

// Gates: input, output, forget, cell.
void CellStep::LstmStep(ValueId sums) {
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
  hidden = Mul(out, n_.Op(Activation(2), {cell}));
}

}  // namespace kiln::onnx
