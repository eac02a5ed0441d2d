// SPDX-License-Identifier: Apache-2.0
// Gradients of conv and conv_transpose: each is the other one, and conv_backward_weights, which is
// linear in both of its operands, too.
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "graph/gradient/convolve.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

absl::StatusOr<Convolution> ConvolutionOf(Nodes& m, const Node& node) {
  const Shape w = m.ShapeOf(node.inputs[1]);
  const std::optional<Ints> kernel = Constant(Shape(w.begin() + 2, w.end()));
  if (!kernel) return absl::UnimplementedError("a kernel whose extents are no numbers");
  Convolution c;
  KILN_ASSIGN_OR_RETURN(c.window, ops::WindowOf(node, *kernel));
  c.group = IntAttr(node, "group");
  return c;
}

// The bias is added to all but the channels.
ValueId OfBias(Nodes& m, const Node& node, ValueId g) {
  if (node.inputs.size() < 3 || !node.inputs[2].valid()) return {};
  Ints axes(m.RankOf(g));
  std::iota(axes.begin(), axes.end(), 0);
  axes.erase(axes.begin() + 1);
  return m.Sum(g, axes);
}

}  // namespace

absl::StatusOr<Ids> Conv(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  KILN_ASSIGN_OR_RETURN(const Convolution c, ConvolutionOf(m, node));
  const ValueId x = node.inputs[0], w = node.inputs[1];
  return m.Give(
      {OfConvolved(m, c, g[0], w, m.ShapeOf(x)), OfWeight(m, c, g[0], x), OfBias(m, node, g[0])});
}

absl::StatusOr<Ids> ConvTranspose(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  KILN_ASSIGN_OR_RETURN(const Convolution c, ConvolutionOf(m, node));
  const ValueId x = node.inputs[0], w = node.inputs[1];
  const ValueId of_x = m.Op("conv", {g[0], w}, AttrsOf(c));
  return m.Give({of_x, OfWeight(m, c, x, g[0]), OfBias(m, node, g[0])});
}

// dw = sum of x times g: x takes what a convolution's input takes of g with the cotangent as the
// weight, g what that convolution gives.
absl::StatusOr<Ids> ConvBackwardWeights(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> v) {
  Nodes m(b);
  Convolution c;
  KILN_ASSIGN_OR_RETURN(c.window, ops::WindowOf(node, IntsAttr(node, "kernel")));
  c.group = IntAttr(node, "group");
  const ValueId x = node.inputs[0], g = node.inputs[1];
  return m.Give({OfConvolved(m, c, g, v[0], m.ShapeOf(x)), m.Op("conv", {x, v[0]}, AttrsOf(c))});
}

}  // namespace kiln::gradient
