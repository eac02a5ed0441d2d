// SPDX-License-Identifier: Apache-2.0
// Gradients that are shorter, or hold where the formula's does not, than those of the bodies.
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "graph/gradient/bodies.h"
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

// By a divisor that many elements share, as in normalisations: one division for each divisor, none
// for each element.
absl::StatusOr<Ids> Div(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const Shape shape = m.ShapeOf(node.outputs[0]), shared = m.ShapeOf(node.inputs[1]);
  if (shape == shared) return ScalarCotangents(b, node, g[0], {true, true});
  const ValueId x = m.Wide(node.inputs[0]), divisor = m.Wide(node.inputs[1]), wide = m.Wide(g[0]);
  const bool rounded = SizeOf(m.TypeOf(node.outputs[0])) <= 2;
  const ValueId y = rounded ? m.Div(x, divisor) : node.outputs[0];
  const ValueId inverse = m.Div(m.Number(m.TypeOf(divisor), 1), divisor);
  const ValueId of_x = m.SumTo(m.Mul(wide, inverse), m.ShapeOf(x));
  const ValueId sum = m.SumTo(m.Mul(wide, y), shared);
  return m.Give({m.To(of_x, m.TypeOf(node.inputs[0])),
                 m.To(m.Neg(m.Mul(sum, inverse)), m.TypeOf(node.inputs[1]))});
}

// With h = (x - mean) / deviation: the sums of g and of g h over the places of each channel and
// sample are all that the gradient of any input needs of them.
absl::StatusOr<Ids> InstanceNorm(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = m.Wide(node.inputs[0]), wide = m.Wide(g[0]);
  const DType type = m.TypeOf(x);
  Ints places(m.RankOf(x) - 2), channels(m.RankOf(x) - 2);
  std::iota(places.begin(), places.end(), 2);
  std::iota(channels.begin(), channels.end(), 1);
  const auto mean = [&](ValueId y) {
    return m.Op("reduce_mean", {y}, {{"axes", places}, {"keepdims", int64_t{1}}});
  };
  const ValueId difference = m.Sub(x, mean(x));
  const ValueId variance = mean(m.Mul(difference, difference));
  const ValueId epsilon = m.Number(type, FloatAttr(node, "epsilon"));
  const ValueId inverse = m.Div(m.Number(type, 1), m.Op("sqrt", {m.Add(variance, epsilon)}));
  const ValueId h = m.Mul(difference, inverse);
  const ValueId scale = m.Unsqueeze(m.To(node.inputs[1], type), channels);
  const ValueId g_h = m.Mul(wide, h);
  const ValueId apart = m.Sub(m.Sub(wide, mean(wide)), m.Mul(h, mean(g_h)));
  const auto of_channels = [&](ValueId y, size_t input) {
    const ValueId sum = m.Sum(m.Sum(y, places, true), {0});
    return m.To(m.Reshape(sum, m.ShapeOf(node.inputs[input])), m.TypeOf(node.inputs[input]));
  };
  return m.Give({m.To(m.Mul(apart, m.Mul(scale, inverse)), m.TypeOf(node.inputs[0])),
                 of_channels(g_h, 1), of_channels(wide, 2)});
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
