// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/convolve.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace kiln::gradient {
namespace {

int64_t Span(const ops::Window& w, size_t i) { return (w.kernel[i] - 1) * w.dilation[i] + 1; }

Attrs ConvAttrs(const Ints& strides, const Ints& dilations, const Ints& before, const Ints& after,
                int64_t group) {
  Ints pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  return {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}};
}

// Swaps the first axes: [N, group * c, ...] to [c, group * N, ...].
ValueId GroupsOutside(Nodes& m, ValueId x, int64_t group) {
  const Shape shape = m.ShapeOf(x);
  if (!m.ok()) return {};
  const Dim channels = shape[1].FloorDiv(group);
  Shape apart = {shape[0], group, channels}, joined = {channels, shape[0] * group};
  Ints perm = {2, 1, 0};
  for (size_t i = 2; i < shape.size(); ++i) {
    apart.push_back(shape[i]);
    joined.push_back(shape[i]);
    perm.push_back(static_cast<int64_t>(i) + 1);
  }
  return m.Reshape(m.Transpose(m.Reshape(x, apart), perm), joined);
}

ValueId SwapFirst(Nodes& m, ValueId x) {
  Ints perm(m.RankOf(x));
  std::iota(perm.begin(), perm.end(), 0);
  if (perm.size() >= 2) std::swap(perm[0], perm[1]);
  return m.Transpose(x, perm);
}

// Elements of the input behind those that windows reach, and the padding that they do not reach.
// Only for numbers.
Ints Unreached(const ops::Window& w, const Ints& in, const Ints& out) {
  Ints more;
  for (size_t i = 0; i < w.rank(); ++i)
    more.push_back(in[i] + w.before[i] + w.after[i] - (out[i] - 1) * w.stride[i] - Span(w, i));
  return more;
}

std::optional<Ints> Spatial(const Shape& shape) {
  return Constant(Shape(shape.begin() + 2, shape.end()));
}

// [group, c, N * places] of [N, group * c, places...]
ValueId AsRows(Nodes& m, ValueId x, int64_t group) {
  const Shape shape = m.ShapeOf(x);
  if (!m.ok()) return {};
  const Dim places = Product(Shape(shape.begin() + 2, shape.end()));
  const Dim channels = shape[1].FloorDiv(group);
  const ValueId apart = m.Reshape(x, {shape[0], group, channels, places});
  return m.Reshape(m.Transpose(apart, {1, 2, 0, 3}), {group, channels, shape[0] * places});
}

ValueId OfWeightByTaps(Nodes& m, const Convolution& c, ValueId g, ValueId x, const Shape& weight) {
  const ValueId rows = AsRows(m, g, c.group);
  const Shape out = m.ShapeOf(g);
  Ids taps;
  Ints at(c.window.rank(), 0);
  do {
    const ValueId seen = AsRows(m, UnderTap(m, c.window, x, at, out), c.group);
    const ValueId sum = m.Op("matmul", {rows, seen}, {{"trans_b", int64_t{1}}});
    taps.push_back(m.Reshape(sum, {weight[0], weight[1], 1}));
  } while (ops::Next(at, c.window.kernel));
  return m.Reshape(m.Op("concat", std::move(taps), {{"axis", int64_t{2}}}), weight);
}

}  // namespace

ValueId UnderTap(Nodes& m, const ops::Window& window, ValueId x, const Ints& at, const Shape& out,
                 double fill) {
  const Shape in = m.ShapeOf(x);
  if (!m.ok()) return {};
  Shape before(in.size(), 0), after(in.size(), 0);
  for (size_t i = 0; i < window.rank(); ++i) {
    // Where this tap begins, and as many elements as strides take.
    before[i + 2] = window.before[i] - at[i] * window.dilation[i];
    after[i + 2] = out[i + 2] * window.stride[i] - in[i + 2] - before[i + 2];
  }
  const ValueId padded = m.Pad(x, before, after, fill);
  Shape ends;  // the first of each `stride` elements
  Ints axes;
  for (size_t i = 0; i < window.rank(); ++i) {
    axes.push_back(static_cast<int64_t>(i) + 2);
    ends.push_back(out[i + 2] * window.stride[i]);
  }
  const bool all = std::all_of(window.stride.begin(), window.stride.end(),
                               [](int64_t stride) { return stride == 1; });
  if (all) return padded;
  return m.Op("slice", {padded},
              {{"starts", Ints(axes.size(), 0)},
               {"ends", DimsValue(ends)},
               {"axes", axes},
               {"steps", window.stride}});
}

ValueId OfConvolved(Nodes& m, const Convolution& c, ValueId g, ValueId w, const Shape& in) {
  const ops::Window& window = c.window;
  const Shape out = m.ShapeOf(g);
  if (!m.ok()) return {};
  const std::optional<Ints> from = Spatial(in), to = Spatial(out);
  // Where extents are numbers, what is cut off and what is missing is known to the operator.
  Ints after(window.rank(), 0), more(window.rank(), 0);
  if (from && to) {
    after = window.after;
    more = Unreached(window, *from, *to);
  }
  Attrs attrs = ConvAttrs(window.stride, window.dilation, window.before, after, c.group);
  attrs["output_padding"] = more;
  const ValueId whole = m.Op("conv_transpose", {g, w}, std::move(attrs));
  if (from && to) return whole;
  const Shape shape = m.ShapeOf(whole);
  if (!m.ok()) return {};
  Shape missing(in.size(), 0);
  for (size_t i = 2; i < in.size(); ++i) missing[i] = in[i] - shape[i];
  return m.Pad(whole, Shape(in.size(), 0), missing);
}

ValueId OfWeight(Nodes& m, const Convolution& c, ValueId g, ValueId x, const Shape& weight) {
  const Shape in = m.ShapeOf(x), out = m.ShapeOf(g);
  if (!m.ok()) return {};
  const std::optional<Ints> from = Spatial(in), to = Spatial(out);
  if (!from || !to || Product(in).IsConst(0) || Product(out).IsConst(0))
    return OfWeightByTaps(m, c, g, x, weight);
  // Padding that windows do not reach is none; elements they do not reach are cut off.
  Ints after = c.window.after;
  const Ints more = Unreached(c.window, *from, *to);
  ValueId seen = x;
  for (size_t i = 0; i < after.size(); ++i) {
    after[i] -= more[i];
    if (after[i] >= 0) continue;
    seen = m.Slice(seen, i + 2, 0, (*from)[i] + after[i]);
    after[i] = 0;
  }
  const ValueId sum =
      m.Op("conv", {GroupsOutside(m, seen, c.group), SwapFirst(m, g)},
           ConvAttrs(c.window.dilation, c.window.stride, c.window.before, after, c.group));
  return SwapFirst(m, sum);
}

}  // namespace kiln::gradient
