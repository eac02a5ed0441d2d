// SPDX-License-Identifier: Apache-2.0
// Gradients that are shorter, or hold where the formula's does not, than those of the bodies.
#include <utility>

#include "base/status_macros.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

// The output of a node of one input, not rounded to 16 bits.
ValueId Exact(Nodes& m, const Node& node) {
  const ValueId x = node.inputs[0];
  if (SizeOf(m.TypeOf(x)) > 2) return node.outputs[0];
  return m.Op(node.op->name, {m.Wide(x)}, node.attrs);
}

}  // namespace

absl::StatusOr<Ids> Softmax(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId y = Exact(m, node), wide = m.Wide(g[0]);
  const ValueId sum = m.Sum(m.Mul(wide, y), {IntAttr(node, "axis")}, true);
  return m.Give({m.To(m.Mul(y, m.Sub(wide, sum)), m.TypeOf(node.inputs[0]))});
}

absl::StatusOr<Ids> LogSoftmax(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId y = Exact(m, node), wide = m.Wide(g[0]);
  const ValueId sum = m.Sum(wide, {IntAttr(node, "axis")}, true);
  return m.Give({m.To(m.Sub(wide, m.Mul(m.Op("exp", {y}), sum)), m.TypeOf(node.inputs[0]))});
}

// x / |x|; 0 where all of x is.
absl::StatusOr<Ids> L2(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = m.Wide(node.inputs[0]);
  ValueId y = Exact(m, node), wide = m.Wide(g[0]);
  if (IntAttr(node, "keepdims") == 0) {
    KILN_ASSIGN_OR_RETURN(const std::vector<int> axes,
                          NormalAxes(IntsAttr(node, "axes"), m.RankOf(x), true));
    y = m.Unsqueeze(y, {axes.begin(), axes.end()});
    wide = m.Unsqueeze(wide, {axes.begin(), axes.end()});
  }
  const ValueId ratio = m.Unless(m.Equal(y, m.Number(m.TypeOf(y), 0)), m.Div(wide, y));
  return m.Give({m.To(m.Mul(x, ratio), m.TypeOf(node.inputs[0]))});
}

}  // namespace kiln::gradient
