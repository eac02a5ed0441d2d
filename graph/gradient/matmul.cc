// SPDX-License-Identifier: Apache-2.0
// The gradient of a matrix product c = a b: products of c's cotangent with the other operand.
#include <utility>

#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

struct Operand {
  ValueId value;
  bool swapped;  // the last two axes are
};

ValueId Times(Nodes& m, Operand a, Operand b) {
  return m.Op("matmul", {a.value, b.value},
              {{"trans_a", int64_t{a.swapped}}, {"trans_b", int64_t{b.swapped}}});
}

Operand Swapped(Operand x) { return {x.value, !x.swapped}; }

// A stack of matrices as one, of all rows.
ValueId Rows(Nodes& m, ValueId x) {
  const Shape shape = m.ShapeOf(x);
  if (shape.size() <= 2) return x;
  return m.Reshape(x, {Product(Shape(shape.begin(), shape.end() - 1)), shape.back()});
}

}  // namespace

absl::StatusOr<Ids> Matmul(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId left = node.inputs[0], right = node.inputs[1];
  Operand x{left, IntAttr(node, "trans_a") != 0}, y{right, IntAttr(node, "trans_b") != 0};
  ValueId c = g[0];
  // A vector is a row on the left and a column on the right, and the product lacks their axis.
  const bool row = m.RankOf(left) == 1, column = m.RankOf(right) == 1;
  if (row) x = {m.Unsqueeze(left, {0}), false};
  if (column) y = {m.Unsqueeze(right, {1}), false};
  if (row) c = m.Unsqueeze(c, {static_cast<int64_t>(m.RankOf(c)) - (column ? 0 : 1)});
  if (column) c = m.Unsqueeze(c, {static_cast<int64_t>(m.RankOf(c))});
  const Operand cotangent{c, false};

  const ValueId of_left =
      x.swapped ? Times(m, y, Swapped(cotangent)) : Times(m, cotangent, Swapped(y));
  // One matrix that all of a stack are multiplied with: one product over all rows.
  const bool shared = m.RankOf(y.value) == 2 && m.RankOf(x.value) > 2 && !x.swapped;
  const Operand a = shared ? Operand{Rows(m, x.value), false} : x;
  const Operand d = shared ? Operand{Rows(m, c), false} : cotangent;
  const ValueId of_right = y.swapped ? Times(m, Swapped(d), a) : Times(m, Swapped(a), d);
  return m.Give({m.Reshape(m.SumTo(of_left, m.ShapeOf(x.value)), m.ShapeOf(left)),
                 m.Reshape(m.SumTo(of_right, m.ShapeOf(y.value)), m.ShapeOf(right))});
}

}  // namespace kiln::gradient
