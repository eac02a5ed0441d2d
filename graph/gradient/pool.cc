// SPDX-License-Identifier: Apache-2.0
// Gradients of pools over windows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "graph/gradient/convolve.h"
#include "graph/gradient/gradients.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

// Behind the input as far as the last window reaches, which with ceil_mode is further than its
// padding says.
absl::StatusOr<ops::Window> ReachingWindow(Nodes& m, const Node& node) {
  KILN_ASSIGN_OR_RETURN(ops::Window w, ops::WindowOf(node, IntsAttr(node, "kernel")));
  if (IntAttr(node, "ceil_mode") == 0) return w;
  const Shape in = m.ShapeOf(node.inputs[0]), out = m.ShapeOf(node.outputs[0]);
  for (size_t i = 0; i < w.rank(); ++i) {
    const auto from = in[i + 2].constant(), to = out[i + 2].constant();
    if (!from || !to) return absl::UnimplementedError("ceil_mode with extents that are no numbers");
    const int64_t reach = (*to - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    w.after[i] = std::max(w.after[i], reach - *from - w.before[i]);
  }
  return w;
}

// How many elements the mean at each place is of: a number, or [1, 1, places...].
absl::StatusOr<ValueId> Taps(Nodes& m, const Node& node, const ops::Window& w, DType type) {
  const bool with_padding = IntAttr(node, "count_include_pad") != 0;
  const bool up = IntAttr(node, "ceil_mode") != 0;
  if (with_padding && !up) return m.Number(type, static_cast<double>(ops::Count(w.kernel)));
  Shape ones = m.ShapeOf(node.inputs[0]);
  ones[0] = ones[1] = 1;
  KILN_ASSIGN_OR_RETURN(const ops::Window own, ops::WindowOf(node, w.kernel));
  ops::Window counted = w;
  ValueId x = m.Filled(type, ones, 1);
  if (with_padding) {  // the node's own padding counts, what ceil_mode adds does not
    Shape before(ones.size(), 0), after(ones.size(), 0);
    for (size_t i = 0; i < w.rank(); ++i) {
      before[i + 2] = own.before[i];
      after[i + 2] = own.after[i];
      counted.before[i] = 0;
      counted.after[i] = w.after[i] - own.after[i];
    }
    x = m.Pad(x, before, after, 1);
  }
  Shape kernel = {1, 1};
  for (const int64_t extent : w.kernel) kernel.push_back(extent);
  Ints pads = counted.before;
  pads.insert(pads.end(), counted.after.begin(), counted.after.end());
  return m.Op("conv", {x, m.Filled(type, kernel, 1)},
              {{"strides", w.stride}, {"dilations", w.dilation}, {"pads", std::move(pads)}});
}

// [N, C, ...] as [N * C, 1, ...]
Shape PlaneByPlane(Shape shape) {
  shape[0] = shape[0] * shape[1];
  shape[1] = 1;
  return shape;
}

}  // namespace

// All elements of a window take the same part: a transposed convolution with ones.
absl::StatusOr<Ids> AveragePool(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0];
  KILN_ASSIGN_OR_RETURN(const ops::Window w, ReachingWindow(m, node));
  const ValueId wide = m.Wide(g[0]);
  KILN_ASSIGN_OR_RETURN(const ValueId taps, Taps(m, node, w, m.TypeOf(wide)));
  const ValueId part = m.Div(wide, taps);
  if (!m.ok()) return b.status();
  Shape kernel = {1, 1};
  for (const int64_t extent : w.kernel) kernel.push_back(extent);
  const Convolution c{w, 1};
  const ValueId sums = OfConvolved(m, c, m.Reshape(part, PlaneByPlane(m.ShapeOf(part))),
                                   m.Filled(m.TypeOf(wide), kernel, 1), PlaneByPlane(m.ShapeOf(x)));
  return m.Give({m.To(m.Reshape(sums, m.ShapeOf(x)), m.TypeOf(x))});
}

// The first element of a window that is its maximum, in row-major order, takes all.
absl::StatusOr<Ids> MaxPool(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  KILN_ASSIGN_OR_RETURN(const ops::Window w, ReachingWindow(m, node));
  const ValueId x = m.Wide(node.inputs[0]), y = m.Wide(node.outputs[0]), wide = m.Wide(g[0]);
  const ValueId nan = m.Op("is_nan", {y});
  std::optional<ValueId> taken;  // whether an earlier tap is the maximum
  Ids seen, parts;
  Ints at(w.rank(), 0);
  const size_t first = b.graph().nodes().size();
  do {
    const ValueId tap = UnderTap(m, w, x, at, m.ShapeOf(y), -INFINITY);
    const ValueId is_it = m.Op("or", {m.Equal(tap, y), m.Op("and", {nan, m.Op("is_nan", {tap})})});
    const ValueId wins = taken ? m.Op("and", {is_it, m.Op("not", {*taken})}) : is_it;
    taken = taken ? m.Op("or", {*taken, is_it}) : is_it;
    seen.push_back(tap);
    parts.push_back(m.Where(wins, wide));
  } while (ops::Next(at, w.kernel));
  KILN_RETURN_IF_ERROR(b.status());
  KILN_ASSIGN_OR_RETURN(const Ids sum, Backward(b, first, seen, parts, {x}));
  return m.Give({m.To(sum[0], m.TypeOf(node.inputs[0]))});
}

}  // namespace kiln::gradient
