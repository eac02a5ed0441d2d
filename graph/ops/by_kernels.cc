// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/by_kernels.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/ops/nodes.h"
#include "graph/ops/window.h"

namespace kiln::ops {
namespace {

using Ids = std::vector<ValueId>;
using Values = absl::StatusOr<Ids>;

ValueId Reshape(GraphBuilder& b, ValueId x, Shape shape) {
  return b.Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
}

ValueId Unsqueeze(GraphBuilder& b, ValueId x, size_t axis) {
  return b.Op("unsqueeze", {x}, {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}});
}

ValueId Reduce(GraphBuilder& b, const char* op, ValueId x, size_t axis) {
  return b.Op(
      op, {x},
      {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}, {"keepdims", int64_t{0}}});
}

size_t Rank(const GraphBuilder& b, ValueId x) { return b.status().ok() ? b.shape(x).size() : 0; }

Values One(const GraphBuilder& b, ValueId value) {
  KILN_RETURN_IF_ERROR(b.status());
  return Ids{value};
}

bool IsGiven(const Node& node, size_t input) {
  return node.inputs.size() > input && node.inputs[input].valid();
}

// ---- matmul
ValueId SwapLastAxes(GraphBuilder& b, ValueId x) {
  std::vector<int64_t> perm;
  for (size_t axis = 0; axis < Rank(b, x); ++axis) perm.push_back(static_cast<int64_t>(axis));
  if (perm.size() < 2) return x;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.Op("transpose", {x}, {{"perm", std::move(perm)}});
}

// The sums along the axis in which the matrices lie side by side: rows of b if it is transposed,
// or a column.
ValueId Product(GraphBuilder& b, ValueId left, ValueId right, bool transposed, Shape shape) {
  const DType type = b.type(left), sums = ComputeType(type);
  left = To(b, left, sums);
  right = To(b, right, sums);
  if (Rank(b, left) == 1) left = Unsqueeze(b, left, 0);
  if (Rank(b, right) == 1) {
    right = Unsqueeze(b, right, 0);
    transposed = true;
  }
  if (!b.status().ok()) return {};
  const size_t rows = Rank(b, left) - 2, columns = Rank(b, right) - 2;
  right = Unsqueeze(b, right, columns);  // [..., 1, k, n], or [..., 1, n, k]
  left = Unsqueeze(b, left, rows + (transposed ? 1 : 2));
  const ValueId products = b.Op("mul", {left, right});
  if (!b.status().ok()) return {};
  const ValueId sum = Reduce(b, "reduce_sum", products, Rank(b, products) - (transposed ? 1 : 2));
  return Reshape(b, To(b, sum, type), std::move(shape));
}

// ---- Windows
std::vector<int64_t> Spatial(const std::vector<int64_t>& shape) {
  return {shape.begin() + 2, shape.end()};
}

absl::StatusOr<std::vector<int64_t>> Numbers(const Shape& shape, size_t first, const char* what) {
  std::optional<std::vector<int64_t>> numbers =
      Constant(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end()));
  if (!numbers)
    return absl::UnimplementedError(absl::StrCat(what, " ", ToString(shape), " are no numbers"));
  return *std::move(numbers);
}

ValueId Integers(GraphBuilder& b, const std::vector<int32_t>& values, Shape shape) {
  Tensor tensor = Tensor::Allocate(DType::kI32, {static_cast<int64_t>(values.size())});
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size() * sizeof(int32_t));
  return Reshape(b, b.Constant(std::move(tensor)), std::move(shape));
}

// Zeros, or `fill`, around the spatial axes; less than none cuts off.
ValueId Pad(GraphBuilder& b, ValueId x, const std::vector<int64_t>& before,
            const std::vector<int64_t>& after, double fill = 0) {
  const auto some = [](int64_t pad) { return pad != 0; };
  if (std::none_of(before.begin(), before.end(), some) &&
      std::none_of(after.begin(), after.end(), some))
    return x;
  std::vector<int64_t> pads(2, 0);
  pads.insert(pads.end(), before.begin(), before.end());
  pads.insert(pads.end(), 2, 0);
  pads.insert(pads.end(), after.begin(), after.end());
  return b.Op("pad", {x}, {{"pads", std::move(pads)}, {"value", fill}});
}

// The windows at all output places of an image, and how many channels each sees.
struct Windows {
  Window window;
  std::vector<int64_t> in, out;  // spatial extents, before padding
  int64_t channels = 1;

  int64_t offsets() const { return channels * Count(window.kernel); }
  int64_t places() const { return Count(out); }
  // With the padding that is read.
  std::vector<int64_t> PaddedExtents() const {
    std::vector<int64_t> extents;
    for (size_t axis = 0; axis < in.size(); ++axis) {
      const int64_t last =
          (out[axis] - 1) * window.stride[axis] + (window.kernel[axis] - 1) * window.dilation[axis];
      extents.push_back(std::max(in[axis] + window.before[axis], last + 1));
    }
    return extents;
  }
};

// Places are counted in 32 bits.
absl::Status Fits(const Windows& windows) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  int64_t elements = std::max<int64_t>(windows.channels, 1);
  for (const int64_t extent : windows.PaddedExtents()) {
    if (extent < 1 || elements > most / extent)
      return absl::UnimplementedError("an image of none, or of more than 2^31 elements");
    elements *= extent;
  }
  if (windows.offsets() < 1 || windows.places() < 1)
    return absl::UnimplementedError("windows of no elements");
  return absl::OkStatus();
}

absl::StatusOr<Windows> WindowsOf(const GraphBuilder& b, const Node& node, ValueId x,
                                  std::vector<int64_t> kernel, int64_t channels, ValueId y) {
  Windows windows;
  KILN_ASSIGN_OR_RETURN(windows.window, WindowOf(node, std::move(kernel)));
  KILN_ASSIGN_OR_RETURN(windows.in, Numbers(b.shape(x), 2, "spatial extents of"));
  KILN_ASSIGN_OR_RETURN(windows.out, Numbers(b.value(y).shape, 2, "spatial extents of"));
  windows.channels = channels;
  KILN_RETURN_IF_ERROR(Fits(windows));
  return windows;
}

absl::StatusOr<Windows> WindowsOf(const GraphBuilder& b, const Node& node, ValueId x,
                                  std::vector<int64_t> kernel, int64_t channels) {
  return WindowsOf(b, node, x, std::move(kernel), channels, node.outputs[0]);
}

// Where the offsets of a window lie behind its beginning, in a padded image of channels; and where
// windows begin.
std::vector<int32_t> Steps(const Windows& w, bool offsets) {
  const std::vector<int64_t> extents = w.PaddedExtents();
  const std::vector<int64_t>& counts = offsets ? w.window.kernel : w.out;
  const std::vector<int64_t>& steps = offsets ? w.window.dilation : w.window.stride;
  std::vector<int32_t> places;
  for (int64_t channel = 0; channel < (offsets ? w.channels : 1); ++channel) {
    std::vector<int64_t> at(counts.size(), 0);
    do {
      int64_t place = channel;
      for (size_t axis = 0; axis < at.size(); ++axis)
        place = place * extents[axis] + at[axis] * steps[axis];
      places.push_back(static_cast<int32_t>(place));
    } while (Next(at, counts));
  }
  return places;
}

// Of x [N, C, ...] the elements under the windows, [N, C / channels, offsets, places].
ValueId UnderWindows(GraphBuilder& b, ValueId x, const Windows& w, double fill = 0) {
  const std::vector<int64_t> extents = w.PaddedExtents();
  std::vector<int64_t> after;
  for (size_t axis = 0; axis < extents.size(); ++axis)
    after.push_back(extents[axis] - w.in[axis] - w.window.before[axis]);
  const ValueId padded = Pad(b, x, w.window.before, after, fill);
  if (!b.status().ok()) return {};
  const Shape shape = b.shape(x);
  const Dim groups = shape[1].FloorDiv(w.channels);
  const ValueId flat = Reshape(b, padded, {shape[0], groups, w.channels * Count(extents)});
  const bool all = Count(w.window.kernel) == 1 && w.places() == Count(extents);
  if (all) return Reshape(b, flat, {shape[0], groups, w.channels, w.places()});
  const ValueId index = b.Op("add", {Integers(b, Steps(w, true), {w.offsets(), 1}),
                                     Integers(b, Steps(w, false), {1, w.places()})});
  return b.Op("gather", {flat, index}, {{"axis", int64_t{2}}});
}

// Convolution of x [N, C, ...] with w [M, C / group, ...], in the type of both.
ValueId Convolve(GraphBuilder& b, ValueId x, ValueId w, const Windows& windows, int64_t group) {
  const ValueId under = UnderWindows(b, x, windows);  // [N, group, k, p]
  if (!b.status().ok()) return {};
  const Dim channels = b.shape(w)[0];
  const ValueId weights = Reshape(b, w, {group, channels.FloorDiv(group), windows.offsets(), 1});
  const ValueId sum = Reduce(b, "reduce_sum", b.Op("mul", {weights, Unsqueeze(b, under, 2)}), 3);
  if (!b.status().ok()) return {};
  Shape shape = {b.shape(x)[0], channels};
  shape.insert(shape.end(), windows.out.begin(), windows.out.end());
  return Reshape(b, sum, shape);
}

// ---- conv_transpose: a convolution of the input with zeros between its elements, by the
// reversed kernel.
int64_t Span(const Window& window, size_t axis) {
  return (window.kernel[axis] - 1) * window.dilation[axis];
}

// The input with stride - 1 zeros behind each element, and all padding.
ValueId SpreadOut(GraphBuilder& b, ValueId image, const Windows& w) {
  std::vector<int64_t> before, after;
  for (size_t axis = 0; axis < w.in.size() && b.status().ok(); ++axis) {
    const int64_t stride = w.window.stride[axis], span = Span(w.window, axis);
    before.push_back(span - w.window.before[axis]);
    after.push_back(w.out[axis] + span - w.in[axis] * stride - before.back());
    if (stride == 1) continue;
    Shape apart = b.shape(image), spread = apart;  // a unit axis, padded, becomes part of this one
    const size_t unit = axis + 3;
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(unit), 1);
    spread[axis + 2] = spread[axis + 2] * stride;
    std::vector<int64_t> pads(2 * apart.size(), 0);
    pads[apart.size() + unit] = stride - 1;
    const ValueId padded =
        b.Op("pad", {Reshape(b, image, apart)}, {{"pads", std::move(pads)}, {"value", 0.0}});
    image = Reshape(b, padded, spread);
  }
  return Pad(b, image, before, after);
}

// w [C, M / group, ...] as [M, C / group, ...], backwards along its spatial axes.
ValueId Reversed(GraphBuilder& b, ValueId w, const std::vector<int64_t>& extents, int64_t group) {
  const int64_t of_group = extents[0] / group, made = extents[1];
  const size_t rank = extents.size() - 2;
  std::vector<int64_t> axes, perm = {0, 2, 1};
  Shape grouped = {group, of_group, made}, shape = {group * made, of_group};
  for (size_t axis = 0; axis < rank; ++axis) {
    axes.push_back(static_cast<int64_t>(axis) + 2);
    perm.push_back(static_cast<int64_t>(axis) + 3);
    grouped.push_back(extents[axis + 2]);
    shape.push_back(extents[axis + 2]);
  }
  const std::vector<int64_t> last(rank, -1), beyond(rank, std::numeric_limits<int64_t>::min());
  const ValueId backwards =
      b.Op("slice", {w}, {{"starts", last}, {"ends", beyond}, {"axes", axes}, {"steps", last}});
  return Reshape(
      b, b.Op("transpose", {Reshape(b, backwards, grouped)}, {{"perm", std::move(perm)}}), shape);
}

Values Finished(GraphBuilder& b, const Node& node, ValueId sum, size_t spatial) {
  if (IsGiven(node, 2)) {
    const ValueId bias = OverChannels(b, node.inputs[2], spatial + 2);
    sum = b.Op("add", {sum, To(b, bias, b.status().ok() ? b.type(sum) : DType::kF32)});
  }
  return One(b, To(b, sum, b.value(node.outputs[0]).type));
}

}  // namespace

Values MatmulByKernels(GraphBuilder& b, const Node& node) {
  ValueId left = node.inputs[0], right = node.inputs[1];
  if (IntAttr(node, "trans_a") != 0) left = SwapLastAxes(b, left);
  return One(
      b, Product(b, left, right, IntAttr(node, "trans_b") != 0, b.value(node.outputs[0]).shape));
}

Values MatmulIntegerByKernels(GraphBuilder& b, const Node& node) {
  ValueId centered[2];
  for (size_t k = 0; k < 2; ++k) {
    centered[k] = To(b, node.inputs[k], DType::kI32);
    if (IsGiven(node, k + 2))
      centered[k] = b.Op("sub", {centered[k], To(b, node.inputs[k + 2], DType::kI32)});
  }
  return One(b, Product(b, centered[0], centered[1], false, b.value(node.outputs[0]).shape));
}

Values ConvByKernels(GraphBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, Numbers(b.shape(w), 1, "extents of"));
  KILN_ASSIGN_OR_RETURN(const Windows windows,
                        WindowsOf(b, node, x, {weight.begin() + 1, weight.end()}, weight[0]));
  const DType sums = ComputeType(b.type(x));
  const ValueId sum = Convolve(b, To(b, x, sums), To(b, w, sums), windows, IntAttr(node, "group"));
  return Finished(b, node, sum, windows.in.size());
}

Values ConvIntegerByKernels(GraphBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, Numbers(b.shape(w), 1, "extents of"));
  KILN_ASSIGN_OR_RETURN(const Windows windows,
                        WindowsOf(b, node, x, {weight.begin() + 1, weight.end()}, weight[0]));
  const auto centered = [&](ValueId bytes, size_t zero) {
    const ValueId whole = To(b, bytes, DType::kI32);
    if (!IsGiven(node, zero)) return whole;
    ValueId from = To(b, node.inputs[zero], DType::kI32);
    if (zero == 2) {
      from = Reshape(b, from, {});
    } else if (b.status().ok() && !b.shape(from).empty()) {
      from = OverChannels(b, from, weight.size() + 2);
    }
    return b.Op("sub", {whole, from});
  };
  const ValueId image = centered(x, 2), weights = centered(w, 3);
  return One(b, Convolve(b, image, weights, windows, IntAttr(node, "group")));
}

Values ConvTransposeByKernels(GraphBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, Numbers(b.shape(w), 0, "extents of"));
  KILN_ASSIGN_OR_RETURN(const Windows of_node, WindowsOf(b, node, x, Spatial(weight), 1));
  const int64_t group = IntAttr(node, "group");
  Windows plain = of_node;  // over what has all its padding
  plain.channels = weight[0] / group;
  plain.window.stride.assign(plain.in.size(), 1);
  plain.window.before.assign(plain.in.size(), 0);
  for (size_t axis = 0; axis < plain.in.size(); ++axis)
    plain.in[axis] = plain.out[axis] + Span(plain.window, axis);
  KILN_RETURN_IF_ERROR(Fits(plain));
  const DType sums = ComputeType(b.type(x));
  const ValueId image = SpreadOut(b, To(b, x, sums), of_node);
  const ValueId weights = Reversed(b, To(b, w, sums), weight, group);
  return Finished(b, node, Convolve(b, image, weights, plain, group), plain.in.size());
}

Values ConvBackwardWeightsByKernels(GraphBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], g = node.inputs[1];
  const Shape made = b.value(node.outputs[0]).shape;
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, Numbers(made, 1, "extents of"));
  KILN_ASSIGN_OR_RETURN(const Windows windows,
                        WindowsOf(b, node, x, {weight.begin() + 1, weight.end()}, weight[0], g));
  const int64_t group = IntAttr(node, "group");
  const DType type = b.type(x), sums = ComputeType(type);
  const ValueId under = UnderWindows(b, To(b, x, sums), windows);  // [N, group, k, p]
  if (!b.status().ok()) return b.status();
  const Dim images = b.shape(x)[0], of_group = b.shape(g)[1].FloorDiv(group);
  const int64_t places = windows.places();
  const ValueId apart = Reshape(b, To(b, g, sums), {images, group, of_group, places});
  // Images beside places: one axis to sum over.
  const std::vector<int64_t> perm = {1, 2, 0, 3};
  const auto rows = [&](ValueId value, const Dim& count) {
    return Reshape(b, b.Op("transpose", {value}, {{"perm", perm}}),
                   {group, count, images * places});
  };
  const ValueId left = Unsqueeze(b, rows(apart, of_group), 2);
  const ValueId right = Unsqueeze(b, rows(under, windows.offsets()), 1);
  const ValueId sum = Reduce(b, "reduce_sum", b.Op("mul", {left, right}), 3);
  return One(b, Reshape(b, To(b, sum, type), made));
}

Values MaxPoolByKernels(GraphBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0];
  KILN_ASSIGN_OR_RETURN(const Windows windows, WindowsOf(b, node, x, IntsAttr(node, "kernel"), 1));
  const ValueId under = UnderWindows(b, x, windows, -std::numeric_limits<double>::infinity());
  return One(b, Reshape(b, Reduce(b, "reduce_max", under, 2), b.value(node.outputs[0]).shape));
}

Values AveragePoolByKernels(GraphBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0];
  KILN_ASSIGN_OR_RETURN(const Windows windows, WindowsOf(b, node, x, IntsAttr(node, "kernel"), 1));
  const DType type = b.type(x), sums = ComputeType(type);
  std::vector<int32_t> taps;
  std::vector<int64_t> at(windows.out.size(), 0);
  const bool with_padding = IntAttr(node, "count_include_pad") != 0;
  do {
    int64_t count = 0;
    if (with_padding) {
      count = PaddedTaps(windows.window, windows.in, at);
    } else {
      ForEachTap(windows.window, windows.in, at, [&](int64_t, int64_t) { ++count; });
    }
    taps.push_back(static_cast<int32_t>(count));
  } while (Next(at, windows.out));
  const ValueId sum = Reduce(b, "reduce_sum", UnderWindows(b, To(b, x, sums), windows), 2);
  const ValueId counts = To(b, Integers(b, taps, {windows.places()}), sums);
  const ValueId mean = To(b, b.Op("div", {sum, counts}), type);
  return One(b, Reshape(b, mean, b.value(node.outputs[0]).shape));
}

}  // namespace kiln::ops
