// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/convolve.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kiln::gradient {
namespace {

int64_t Span(const ops::Window& w, size_t i) { return (w.kernel[i] - 1) * w.dilation[i] + 1; }

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

}  // namespace

Attrs AttrsOf(const Convolution& c) {
  Ints pads = c.window.before;
  pads.insert(pads.end(), c.window.after.begin(), c.window.after.end());
  return {{"strides", c.window.stride},
          {"dilations", c.window.dilation},
          {"pads", std::move(pads)},
          {"group", c.group}};
}

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
  const Shape out = m.ShapeOf(g);
  if (!m.ok()) return {};
  const std::optional<Ints> from = Spatial(in), to = Spatial(out);
  Attrs attrs = AttrsOf(c);
  if (from && to) {
    attrs["output_padding"] = Unreached(c.window, *from, *to);
  } else {
    attrs["extents"] = DimsValue(Shape(in.begin() + 2, in.end()));
  }
  return m.Op("conv_transpose", {g, w}, std::move(attrs));
}

ValueId OfWeight(Nodes& m, const Convolution& c, ValueId g, ValueId x) {
  Attrs attrs = AttrsOf(c);
  attrs["kernel"] = c.window.kernel;
  return m.Op("conv_backward_weights", {x, g}, std::move(attrs));
}

}  // namespace kiln::gradient
