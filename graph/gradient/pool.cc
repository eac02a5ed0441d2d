// SPDX-License-Identifier: Apache-2.0
// Gradients of pools over windows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "graph/gradient/convolve.h"
#include "graph/gradient/gradients.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

Shape SpatialOf(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

// The window of a pool from x to y [N, C, ...]: behind x as far as the last window reaches, which
// with ceil_mode is further than its padding says.
absl::StatusOr<ops::Window> ReachingWindow(const Node& node, const Shape& x, const Shape& y) {
  KILN_ASSIGN_OR_RETURN(ops::Window w, ops::WindowOf(node, IntsAttr(node, "kernel")));
  if (IntAttr(node, "ceil_mode") == 0) return w;
  const std::optional<Ints> from = Constant(SpatialOf(x)), to = Constant(SpatialOf(y));
  if (!from || !to) return absl::UnimplementedError("ceil_mode with extents that are no numbers");
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t reach = ((*to)[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    w.after[i] = std::max(w.after[i], reach - (*from)[i] - w.before[i]);
  }
  return w;
}

// How many elements the mean at each place is of, [1, 1, places...], where extents are numbers.
ValueId CountedTaps(Nodes& m, const Node& node, const ops::Window& own, const Ints& in,
                    const Ints& out, DType type) {
  const bool with_padding = IntAttr(node, "count_include_pad") != 0;
  Ints shape = {1, 1};
  shape.insert(shape.end(), out.begin(), out.end());
  Tensor counts = Tensor::Allocate(type, shape);
  Ints at(out.size(), 0);
  for (int64_t i = 0; i < counts.num_elements(); ++i, ops::Next(at, out)) {
    int64_t taps = 0;
    if (with_padding) {
      taps = ops::PaddedTaps(own, in, at);
    } else {
      ops::ForEachTap(own, in, at, [&](int64_t, int64_t) { ++taps; });
    }
    WriteFloat(counts, i, static_cast<double>(taps));
  }
  return m.builder().Constant(std::move(counts));
}

// The same, for pools from x to y: a number where all have as many, and a convolution of ones where
// extents are no numbers.
absl::StatusOr<ValueId> Taps(Nodes& m, const Node& node, const Shape& x, const Shape& y,
                             DType type) {
  KILN_ASSIGN_OR_RETURN(const ops::Window own, ops::WindowOf(node, IntsAttr(node, "kernel")));
  const bool up = IntAttr(node, "ceil_mode") != 0;
  if (IntAttr(node, "count_include_pad") != 0 && !up)
    return m.Number(type, static_cast<double>(ops::Count(own.kernel)));
  const std::optional<Ints> in = Constant(SpatialOf(x)), out = Constant(SpatialOf(y));
  if (in && out) return CountedTaps(m, node, own, *in, *out, type);
  if (up) return absl::UnimplementedError("ceil_mode with extents that are no numbers");
  Shape ones = x, kernel = {1, 1};
  ones[0] = ones[1] = 1;
  kernel.insert(kernel.end(), own.kernel.begin(), own.kernel.end());
  return m.Op("conv", {m.Filled(type, ones, 1), m.Filled(type, kernel, 1)}, AttrsOf({own, 1}));
}

// What x takes of `parts`, one for each tap of the window, of what the tap sees.
absl::StatusOr<ValueId> SumOfTaps(Nodes& m, const ops::Window& w, ValueId x, const Shape& y,
                                  double fill, absl::FunctionRef<Ids(const Ids& seen)> parts) {
  GraphBuilder& b = m.builder();
  const size_t first = b.graph().nodes().size();
  Ids seen;
  Ints at(w.rank(), 0);
  do {
    seen.push_back(UnderTap(m, w, x, at, y, fill));
  } while (ops::Next(at, w.kernel));
  const Ids given = parts(seen);
  KILN_RETURN_IF_ERROR(b.status());
  KILN_ASSIGN_OR_RETURN(const Ids sum, Backward(b, first, seen, given, {x}));
  return sum[0];
}

// The attributes of the pool `node`, for its backward operator.
Attrs AttrsFor(const Node& node, absl::string_view op) {
  Attrs attrs;
  for (const AttrSpec& spec : FindOp(op)->attrs) {
    const auto found = node.attrs.find(spec.name);
    if (found != node.attrs.end()) attrs[spec.name] = found->second;
  }
  return attrs;
}

}  // namespace

absl::StatusOr<Ids> AveragePool(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  Attrs attrs = AttrsFor(node, "average_pool_backward");
  attrs["shape"] = DimsValue(m.ShapeOf(node.inputs[0]));
  return m.Give({m.Op("average_pool_backward", {g[0]}, std::move(attrs))});
}

absl::StatusOr<Ids> MaxPool(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0];
  return m.Give({m.Op("max_pool_backward", {x, g[0]}, AttrsFor(node, "max_pool_backward"))});
}

// It is the transpose of the pool.
absl::StatusOr<Ids> AveragePoolBackward(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> v) {
  Nodes m(b);
  return m.Give({m.Op("average_pool", {v[0]}, AttrsFor(node, "average_pool"))});
}

// Each place takes what its maximum is given.
absl::StatusOr<Ids> MaxPoolBackward(GraphBuilder& b, const Node& node, std::span<const ValueId> v) {
  const size_t first = b.graph().nodes().size();
  KILN_ASSIGN_OR_RETURN(const Ids made, MaxPoolBackwardByKernels(b, node));
  KILN_ASSIGN_OR_RETURN(const Ids sums, Backward(b, first, made, {v[0]}, {node.inputs[1]}));
  return Ids{{}, sums[0]};
}

// All elements of a window take the same part.
absl::StatusOr<Ids> AveragePoolBackwardByKernels(GraphBuilder& b, const Node& node) {
  Nodes m(b);
  const ValueId g = node.inputs[0];
  const Shape in = m.ShapeOf(node.outputs[0]), out = m.ShapeOf(g);
  KILN_ASSIGN_OR_RETURN(const ops::Window w, ReachingWindow(node, in, out));
  const ValueId wide = m.Wide(g);
  KILN_ASSIGN_OR_RETURN(const ValueId taps, Taps(m, node, in, out, m.TypeOf(wide)));
  const ValueId part = m.Div(wide, taps), x = m.Filled(m.TypeOf(wide), in, 0);
  KILN_ASSIGN_OR_RETURN(const ValueId sum, SumOfTaps(m, w, x, out, 0, [&](const Ids& seen) {
                          return Ids(seen.size(), part);
                        }));
  return m.Give({m.To(sum, m.TypeOf(g))});
}

// The first element of a window that is its maximum, in row-major order, takes all.
absl::StatusOr<Ids> MaxPoolBackwardByKernels(GraphBuilder& b, const Node& node) {
  Nodes m(b);
  const ValueId x = m.Wide(node.inputs[0]), wide = m.Wide(node.inputs[1]);
  const Shape in = m.ShapeOf(x), out = m.ShapeOf(wide);
  KILN_ASSIGN_OR_RETURN(const ops::Window w, ReachingWindow(node, in, out));
  KILN_ASSIGN_OR_RETURN(
      const ValueId sum, SumOfTaps(m, w, x, out, -INFINITY, [&](const Ids& seen) {
        ValueId y = seen[0];
        for (size_t k = 1; k < seen.size(); ++k) y = m.Op("max", {y, seen[k]});
        const ValueId nan = m.Op("is_nan", {y});
        std::optional<ValueId> taken;  // whether an earlier tap is the maximum
        Ids parts;
        for (const ValueId tap : seen) {
          const ValueId is_it =
              m.Op("or", {m.Equal(tap, y), m.Op("and", {nan, m.Op("is_nan", {tap})})});
          const ValueId wins = taken ? m.Op("and", {is_it, m.Op("not", {*taken})}) : is_it;
          taken = taken ? m.Op("or", {*taken, is_it}) : is_it;
          parts.push_back(m.Where(wins, wide));
        }
        return parts;
      }));
  return m.Give({m.To(sum, m.TypeOf(node.inputs[0]))});
}

}  // namespace kiln::gradient
