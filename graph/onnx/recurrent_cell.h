// SPDX-License-Identifier: Apache-2.0
// One step of RNN, GRU and LSTM, as nodes.
//
//   CellStep step(n, r, 0);                    // of the first direction
//   step.hidden = ...;                         // what is before the first step: [batch, hidden]
//   y0 = step.Next(products of step 0, t0);    // its output; step.hidden is what comes after it
//
// Whoever calls it writes the steps out one by one or makes a loop of one: `n` may write to the
// model's graph or to a body. The expressions are the same, and so are the bits.
#ifndef KILN_GRAPH_ONNX_RECURRENT_CELL_H_
#define KILN_GRAPH_ONNX_RECURRENT_CELL_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/onnx/node_view.h"

namespace kiln::onnx {

enum class Cell : uint8_t { kRnn, kGru, kLstm };

inline int64_t GatesOf(Cell cell) { return cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4; }

// The network: what attributes say, and the extents of the operands.
struct Recurrence {
  Cell cell = Cell::kRnn;
  int64_t hidden = 0, directions = 1;
  double clip = 0;
  bool reverse = false, input_forget = false, reset_after = false;
  DType type = DType::kF32;  // that is computed in
  Dim steps, batch;
  ValueId x;  // [steps, batch, inputs], in the compute type
  std::vector<const char*> activations;

  bool IsBackwards(int64_t direction) const { return reverse || direction == 1; }
};

// The part of an operand that is one direction's, in the compute type.
ValueId OwnPart(NodeView& n, const Recurrence& r, ValueId operand, int64_t direction);

class CellStep {
 public:
  // Operands 2, 3, 4 and 7 of `n` are R, B, sequence_lens and P, as ONNX numbers them.
  CellStep(NodeView& n, const Recurrence& r, int64_t direction);

  // The step `t` (0-d, i64) from the product of its inputs with their weights, [batch, gates *
  // hidden]. Gives its output, and changes the state.
  ValueId Next(ValueId inputs, ValueId t);

  ValueId hidden, cell;  // the state: [batch, hidden]; `cell` of an LSTM only

 private:
  ValueId Add(ValueId a, ValueId b) { return b.valid() ? n_.Op("add", {a, b}) : a; }
  ValueId Mul(ValueId a, ValueId b) { return n_.Op("mul", {a, b}); }
  ValueId Gate(ValueId all, int64_t axis, int64_t gate);
  const char* Activation(size_t which) const;
  ValueId Activate(size_t which, ValueId x);
  void GruStep(ValueId inputs);
  void LstmStep(ValueId sums);

  NodeView& n_;
  const Recurrence& r_;
  int64_t direction_;
  ValueId weights_, input_bias_, hidden_bias_, peepholes_;
  ValueId length_;  // [batch, 1], i64; invalid: all steps
};

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_RECURRENT_CELL_H_
