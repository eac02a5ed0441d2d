// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolution, pooling, softmax and the normalisations.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/conv_attrs.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

absl::Status OldGemm(NodeView& n) {
  n.Ignore("broadcast");  // the third input broadcasts anyway
  return AsRecord(n);
}

// ---- windows: what convolution and pooling have in common

struct Window {
  std::vector<int64_t> kernel, strides, pads, dilations;  // pads: all beginnings, then all ends
};

constexpr int64_t kMostWindow = int64_t{1} << 31;  // keeps products of two within int64

// Padding that "SAME" asks for: ceil(extent / stride) outputs, the odd element at the end (upper)
// or the beginning.
absl::StatusOr<std::vector<int64_t>> SamePads(const NodeView& n, const Window& w, bool upper) {
  const size_t spatial = w.kernel.size();
  std::vector<int64_t> pads(2 * spatial);
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t total = reach - 1;  // of stride 1, whatever the extent
    if (w.strides[i] != 1) {
      const std::optional<int64_t> extent = n.value(0).shape[i + 2].constant();
      if (!extent || *extent > kMostWindow)
        return absl::UnimplementedError("auto_pad SAME with a stride needs extents that are known");
      const int64_t out = (*extent + w.strides[i] - 1) / w.strides[i];
      total = (out - 1) * w.strides[i] + reach - *extent;
    }
    if (total < 0) total = 0;
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[spatial + i] = total - pads[i];
  }
  return pads;
}

absl::Status CheckWindow(const Window& w) {
  const size_t spatial = w.kernel.size();
  if (w.strides.size() != spatial || w.dilations.size() != spatial ||
      w.pads.size() != 2 * spatial) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel, strides, dilations and pads have ", spatial, ", ", w.strides.size(),
                     ", ", w.dilations.size(), " and ", w.pads.size(), " elements, expected ",
                     spatial, ", ", spatial, ", ", spatial, " and ", 2 * spatial));
  }
  const auto outside = [](const std::vector<int64_t>& numbers, int64_t least) {
    for (const int64_t number : numbers) {
      if (number < least || number > kMostWindow) return true;
    }
    return false;
  };
  if (outside(w.kernel, 1) || outside(w.strides, 1) || outside(w.dilations, 1)) {
    return absl::InvalidArgumentError(
        "kernel, strides and dilations must be at least 1 and at most 2^31");
  }
  if (outside(w.pads, -kMostWindow)) return absl::InvalidArgumentError("pads must be at most 2^31");
  return absl::OkStatus();
}

// Reads the attributes; `kernel` are the extents of the window where an operand gives them.
absl::StatusOr<Window> ReadWindow(NodeView& n, std::vector<int64_t> kernel,
                                  bool transposed = false) {
  const int spatial = n.rank(0) - 2;
  if (spatial < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("input has rank ", n.rank(0), ", expected at least 3"));
  const auto count = static_cast<size_t>(spatial);
  Window w;
  w.kernel = n.Ints("kernel_shape", kernel);
  if (!kernel.empty() && w.kernel != kernel)
    return absl::InvalidArgumentError("kernel_shape differs from the weight's extents");
  w.strides = n.Ints("strides", std::vector<int64_t>(count, 1));
  w.dilations = n.Ints("dilations", std::vector<int64_t>(count, 1));
  w.pads = n.Ints("pads", std::vector<int64_t>(2 * count, 0));
  const std::string pad = n.Text("auto_pad", "NOTSET");
  if (pad == "VALID") w.pads.assign(2 * count, 0);
  if (w.kernel.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kernel has ", w.kernel.size(), " dims, but the input ", count, " spatial ones"));
  }
  KILN_RETURN_IF_ERROR(CheckWindow(w));
  if (transposed) return w;  // its padding follows from the output
  if (pad == "SAME_UPPER" || pad == "SAME_LOWER") {
    KILN_ASSIGN_OR_RETURN(w.pads, SamePads(n, w, pad == "SAME_UPPER"));
  } else if (pad != "NOTSET" && pad != "VALID" && !pad.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "auto_pad is \"", pad, "\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  }
  return w;
}

// Extents of a weight, input `weight`, from its third dim on.
absl::StatusOr<std::vector<int64_t>> KernelOf(const NodeView& n, int weight = 1) {
  if (n.rank(weight) != n.rank(0) || n.rank(weight) < 3) {
    return absl::InvalidArgumentError(absl::StrCat("weight has rank ", n.rank(weight),
                                                   " and input ", n.rank(0),
                                                   ", expected the same, from 3"));
  }
  const Shape& shape = n.value(weight).shape;
  const auto kernel = Constant(Shape(shape.begin() + 2, shape.end()));
  if (!kernel)
    return ExtentsError(shape,
                        absl::StrCat("weight has shape ", ToString(shape), ", which is not fixed"));
  return *kernel;
}

absl::Status Conv(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  KILN_ASSIGN_OR_RETURN(Attrs attrs, ConvAttrs(n, 1));
  std::vector<ValueId> inputs = {n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  return n.Emit("conv", std::move(inputs), std::move(attrs));
}

// Padding and further output elements that give the extents that `auto_pad` or `output_shape` ask
// for. A total that is odd leaves the larger part at the end only for SAME_UPPER. Where strides are
// longer than windows reach, `auto_pad` pads by less than 0; `output_shape` wants zeros behind.
absl::Status FitTransposed(NodeView& n, const std::string& pad, Window& w,
                           std::vector<int64_t>& more) {
  const size_t spatial = w.kernel.size();
  const std::vector<int64_t> wanted = n.Ints("output_shape");
  const bool same = pad == "SAME_UPPER" || pad == "SAME_LOWER";
  if (wanted.empty() && !same) return absl::OkStatus();
  if (!wanted.empty() && wanted.size() != spatial && wanted.size() != spatial + 2)
    return absl::InvalidArgumentError(
        absl::StrCat("output_shape has ", wanted.size(), " elements for ", spatial, " dims"));
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t total = reach + more[i] - w.strides[i];  // for extents of `stride` times the input's
    if (!wanted.empty()) {
      const std::optional<int64_t> extent = n.value(0).shape[i + 2].constant();
      if (!extent || *extent > kMostWindow)
        return absl::UnimplementedError("output_shape needs extents that are known");
      total = w.strides[i] * (*extent - 1) + more[i] + reach - wanted[wanted.size() - spatial + i];
    }
    if (!wanted.empty() && total < 0) {
      more[i] -= total;
      total = 0;
    }
    const int64_t half = total >> 1;  // rounded down
    w.pads[i] = pad == "SAME_UPPER" ? half : total - half;
    w.pads[spatial + i] = total - w.pads[i];
  }
  return absl::OkStatus();
}

// Zeros around the result: pads of it, empty if there are none. They stand for padding below 0, and
// for an output padding of a stride or more, which ONNX allows up to the dilation: it is taken from
// the padding at the end, and what is left of it are zeros behind.
std::vector<int64_t> ZerosAround(Window& w, std::vector<int64_t>& more) {
  const size_t spatial = w.kernel.size(), rank = spatial + 2;
  std::vector<int64_t> zeros(2 * rank, 0);
  for (size_t i = 0; i < spatial; ++i) {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      int64_t& padding = w.pads[side * spatial + i];
      zeros[side * rank + 2 + i] = std::max<int64_t>(0, -padding);
      padding = std::max<int64_t>(0, padding);
    }
    if (more[i] < w.strides[i] || more[i] >= std::max(w.strides[i], w.dilations[i])) continue;
    int64_t& end = w.pads[spatial + i];
    const int64_t from_end = std::min(more[i], end);
    end -= from_end;
    zeros[rank + 2 + i] += more[i] - from_end;
    more[i] = 0;
  }
  if (std::count(zeros.begin(), zeros.end(), 0) == std::ssize(zeros)) zeros.clear();
  return zeros;
}

absl::Status ConvTranspose(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> kernel, KernelOf(n));
  const std::string pad = n.Text("auto_pad", "NOTSET");
  KILN_ASSIGN_OR_RETURN(Window w, ReadWindow(n, std::move(kernel), /*transposed=*/true));
  std::vector<int64_t> more = n.Ints("output_padding", std::vector<int64_t>(w.strides.size(), 0));
  if (more.size() != w.strides.size())
    return absl::InvalidArgumentError("output_padding has another number of elements than strides");
  KILN_RETURN_IF_ERROR(FitTransposed(n, pad, w, more));
  const std::vector<int64_t> zeros = ZerosAround(w, more);
  const Attrs attrs = {{"strides", w.strides},
                       {"pads", w.pads},
                       {"dilations", w.dilations},
                       {"group", n.Int("group", 1)},
                       {"output_padding", more}};
  if (n.has(2)) {
    const Dim channels = n.value(1).shape[1] * n.Int("group", 1);
    KILN_RETURN_IF_ERROR(RequireShape(n, n.in(2), {channels}, "bias"));
  }
  if (!n.has(2) && zeros.empty()) return n.Emit("conv_transpose", {n.in(0), n.in(1)}, attrs);
  // The bias joins the kernel that follows: the library has no good way to add it.
  Axes spatial(w.strides.size());
  std::iota(spatial.begin(), spatial.end(), 1);
  ValueId y = n.Op("conv_transpose", {n.in(0), n.in(1)}, attrs);
  if (!n.has(2)) return n.Emit("pad", {y}, {{"pads", zeros}});
  if (!zeros.empty()) y = n.Op("pad", {y}, {{"pads", zeros}});
  return n.Emit("add", {y, Unsqueeze(n, n.in(2), spatial)}, {});
}

constexpr int64_t kMostTaps = 256;  // of a window whose places are asked for

// The tap of its window that gives each output of a max pool, 0 .. taps - 1, i64: [N, C, out...].
ValueId WinningTap(NodeView& n, ValueId x, const Window& w, const Shape& out) {
  const size_t spatial = w.kernel.size();
  int64_t taps = 1;
  for (const int64_t extent : w.kernel) taps *= extent;
  std::vector<ValueId> planes;
  for (int64_t tap = 0; tap < taps; ++tap) {
    Axes starts, ends, axes, steps;
    int64_t rest = tap;
    for (size_t i = spatial; i-- > 0; rest /= w.kernel[i]) {
      const int64_t start = rest % w.kernel[i] * w.dilations[i];
      starts.push_back(start);
      const int64_t count = *out[i + 2].constant();  // 0 where the window does not fit
      ends.push_back(count < 1 ? start : start + (count - 1) * w.strides[i] + 1);
      axes.push_back(static_cast<int64_t>(i) + 2);
      steps.push_back(w.strides[i]);
    }
    const ValueId plane =
        n.Op("slice", {x}, {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
    planes.push_back(Unsqueeze(n, plane, {0}));
  }
  const ValueId all = n.Op("concat", planes, {{"axis", int64_t{0}}});
  const ValueId hit =
      n.Op("or", {n.Op("equal", {all, Reduce(n, "reduce_max", all, {0})}), n.Op("is_nan", {all})});
  const ValueId tap = Coordinates(n, taps, 0, static_cast<int64_t>(spatial) + 3);
  const ValueId none = n.Scalar(DType::kI64, static_cast<double>(taps - 1));
  return Reduce(n, "reduce_min", n.Op("where", {hit, tap, none}), {0}, false);
}

// Where each maximum stands, counted through the whole input; `columns`: spatial places are counted
// with the first axis fastest.
absl::StatusOr<ValueId> MaxPlaces(NodeView& n, ValueId x, const Window& w, const Shape& out,
                                  bool columns) {
  const size_t spatial = w.kernel.size();
  const std::optional<std::vector<int64_t>> in = Constant(ShapeOf(n, x)), to = Constant(out);
  int64_t taps = 1;
  for (const int64_t extent : w.kernel) taps = std::min(taps * extent, kMostTaps + 1);
  if (!in || !to || taps > kMostTaps)
    return absl::UnimplementedError("indices need extents that are known, and a small window");
  const auto rank = static_cast<int64_t>(spatial) + 2;
  std::vector<int64_t> pads(2 * static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    pads[i + 2] = w.pads[i];
    pads[static_cast<size_t>(rank) + i + 2] =
        std::max<int64_t>(0, ((*to)[i + 2] - 1) * w.strides[i] + reach - (*in)[i + 2] - w.pads[i]);
  }
  const ValueId padded =
      n.Op("pad", {x}, {{"pads", pads}, {"value", -std::numeric_limits<double>::infinity()}});
  const ValueId tap = WinningTap(n, padded, w, out);
  const auto number = [&](int64_t value) {
    return n.Scalar(DType::kI64, static_cast<double>(value));
  };
  const auto times = [&](ValueId a, int64_t b) { return n.Op("mul", {a, number(b)}); };
  const auto along = [&](int64_t axis) {
    return Coordinates(n, out[static_cast<size_t>(axis)], axis, rank);
  };
  int64_t plane = 1;
  for (size_t i = 0; i < spatial; ++i) plane *= (*in)[i + 2];
  ValueId flat = times(n.Op("add", {times(along(0), (*in)[1]), along(1)}), plane);
  int64_t inner = 1;
  for (size_t k = 0; k < spatial; ++k) {
    const size_t i = spatial - 1 - k;  // taps are counted with the last axis fastest
    int64_t weight = 1;
    for (size_t j = columns ? 0 : i + 1; j < (columns ? i : spatial); ++j) weight *= (*in)[j + 2];
    const ValueId own = n.Op("mod", {n.Op("div", {tap, number(inner)}), number(w.kernel[i])});
    const ValueId origin =
        n.Op("sub", {times(along(static_cast<int64_t>(i) + 2), w.strides[i]), number(w.pads[i])});
    const ValueId place = n.Op("add", {origin, times(own, w.dilations[i])});
    flat = n.Op("add", {flat, times(place, weight)});
    inner *= w.kernel[i];
  }
  return flat;
}

absl::Status MaxPool(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const bool columns = n.Int("storage_order", 0) != 0;
  KILN_ASSIGN_OR_RETURN(const Window w, ReadWindow(n, {}));
  const Attrs attrs = {{"kernel", w.kernel},
                       {"strides", w.strides},
                       {"pads", w.pads},
                       {"dilations", w.dilations},
                       {"ceil_mode", n.Int("ceil_mode", 0)}};
  const DType type = n.value(0).type;
  // The numbers of a byte are floats too.
  const ValueId x = IsFloat(type) ? n.in(0) : Cast(n, n.in(0), DType::kF32);
  if (n.wants(1)) {
    const Shape out = ShapeOf(n, n.Op("max_pool", {x}, attrs));
    KILN_RETURN_IF_ERROR(n.status());
    KILN_ASSIGN_OR_RETURN(const ValueId places, MaxPlaces(n, x, w, out, columns));
    KILN_RETURN_IF_ERROR(n.Give(1, places));
  }
  if (IsFloat(type)) return n.Emit("max_pool", {x}, attrs);
  return n.Emit("cast", {n.Op("max_pool", {x}, attrs)}, {{"to", type}});
}

absl::Status AveragePool(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const Window w, ReadWindow(n, {}));
  return n.Emit("average_pool", {n.in(0)},
                {{"kernel", w.kernel},
                 {"strides", w.strides},
                 {"pads", w.pads},
                 {"dilations", w.dilations},
                 {"ceil_mode", n.Int("ceil_mode", 0)},
                 {"count_include_pad", n.Int("count_include_pad", 0)}});
}

// The p-th root of the sum of |x|^p over windows, of which padding is zeros.
ValueId Powered(NodeView& n, ValueId x, int64_t p) {
  if (p == 1) return n.Op("abs", {x});
  if (p == 2) return n.Op("mul", {x, x});
  return n.Op("pow", {n.Op("abs", {x}), n.Scalar(TypeOf(n, x), static_cast<double>(p))});
}

ValueId Rooted(NodeView& n, ValueId sum, int64_t p) {
  if (p == 1) return sum;
  if (p == 2) return n.Op("sqrt", {sum});
  return n.Op("pow", {sum, n.Scalar(TypeOf(n, sum), 1.0 / static_cast<double>(p))});
}

// In ceil mode the last window may reach beyond the padded input: more zeros stand there. One that
// would begin behind the input and its padding at the front is left out, as of other pools.
absl::Status PadForCeil(const NodeView& n, Window& w) {
  const size_t spatial = w.kernel.size();
  for (size_t i = 0; i < spatial; ++i) {
    const std::optional<int64_t> extent = n.value(0).shape[i + 2].constant();
    if (!extent || *extent > kMostWindow)
      return absl::UnimplementedError("ceil_mode needs extents that are known");
    const int64_t stride = w.strides[i], span = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const int64_t front = *extent + w.pads[i], room = front + w.pads[spatial + i] - span;
    if (stride == 1 || room + stride <= 0 || front <= 0) continue;
    const int64_t windows =
        std::min((room + stride - 1) / stride + 1, (front + stride - 1) / stride);
    const int64_t least = (windows - 1) * stride + span - front;
    w.pads[spatial + i] = std::clamp(w.pads[spatial + i], least, least + stride - 1);
  }
  return absl::OkStatus();
}

absl::Status LpPool(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t p = n.Int("p", 2);
  if (p < 1) return absl::InvalidArgumentError(absl::StrCat("p is ", p));
  KILN_ASSIGN_OR_RETURN(Window w, ReadWindow(n, {}));
  if (n.Int("ceil_mode", 0) != 0) KILN_RETURN_IF_ERROR(PadForCeil(n, w));
  const DType stored = n.value(0).type, type = ComputeType(stored);
  std::vector<int64_t> pads(2, 0);
  const auto middle = w.pads.begin() + static_cast<std::ptrdiff_t>(w.kernel.size());
  pads.insert(pads.end(), w.pads.begin(), middle);
  pads.insert(pads.end(), 2, 0);
  pads.insert(pads.end(), middle, w.pads.end());
  const ValueId x = n.Op("pad", {Powered(n, Cast(n, n.in(0), type), p)}, {{"pads", pads}});
  const ValueId mean =
      n.Op("average_pool", {x},
           {{"kernel", w.kernel}, {"strides", w.strides}, {"dilations", w.dilations}});
  double taps = 1;
  for (const int64_t extent : w.kernel) taps *= static_cast<double>(extent);
  const ValueId sum = n.Op("mul", {mean, n.Scalar(type, taps)});
  return n.Emit("cast", {Rooted(n, sum, p)}, {{"to", stored}});
}

absl::Status GlobalLpPool(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t p = n.Int("p", 2);
  if (p < 1 || n.rank(0) < 3)
    return absl::InvalidArgumentError("needs p and the number of spatial dims from 1");
  const DType stored = n.value(0).type;
  const ValueId powers = Powered(n, Cast(n, n.in(0), ComputeType(stored)), p);
  const ValueId sum = Reduce(n, "reduce_sum", powers, AxesFrom(2, n.rank(0)));
  return n.Emit("cast", {Rooted(n, sum, p)}, {{"to", stored}});
}

// ---- softmax

// Before operator set 13 the input was seen as a matrix: the axes before `axis` are its rows, the
// others its columns.
absl::Status FlatSoftmax(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int rank = n.rank(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 1), rank));
  if (axis == rank - 1) return n.Emit(n.record(), {n.in(0)}, {{"axis", axis}});
  const ValueId rows =
      n.Op(n.record(), {n.Op("flatten", {n.in(0)}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  return n.Emit("reshape", {rows},
                {{"shape", DimsValue(n.value(0).shape)}, {"allowzero", int64_t{1}}});
}

// ---- normalisation

DType WiderOf(DType a, DType b) { return SizeOf(a) >= SizeOf(b) ? a : b; }

// An operand that broadcasts to the input, and not the other way round.
absl::Status CheckNoWider(NodeView& n, int k, absl::string_view what) {
  const Shape &x = n.value(0).shape, &own = n.value(k).shape;
  bool wider = own.size() > x.size();
  for (size_t i = 0; !wider && i < own.size(); ++i) {
    if (!x[x.size() - own.size() + i].IsConst(1)) continue;  // the product's rule says the rest
    const Guard one = Guard::Same(own[i], 1);
    wider = one.Static() == false;
    if (!one.Static()) n.Assume(one);
  }
  if (!wider) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", ToString(own), " does not broadcast to the input ", ToString(x)));
}

// The optional outputs are the mean and 1 / sqrt(variance + epsilon), of type `stash_type`; sums
// are made in f32 or wider whatever that is.
absl::Status LayerNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  const int64_t stash = n.Int("stash_type", 1);
  const absl::StatusOr<DType> statistics = ToDType(stash);
  if (!statistics.ok() || !IsFloat(*statistics))
    return absl::InvalidArgumentError(absl::StrCat("stash_type ", stash, " is no float type"));
  if (!n.wants(1) && !n.wants(2)) return AsRecord(n);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", -1), n.rank(0)));
  std::vector<int64_t> axes;
  for (int64_t a = axis; a < n.rank(0); ++a) axes.push_back(a);
  const Attrs over = {{"axes", axes}, {"keepdims", int64_t{1}}};
  const DType type = ComputeType(n.value(0).type);
  const ValueId x = n.Op("cast", {n.in(0)}, {{"to", type}});
  const ValueId mean = n.Op("reduce_mean", {x}, over);
  const ValueId difference = n.Op("sub", {x, mean});
  const ValueId variance = n.Op("reduce_mean", {n.Op("mul", {difference, difference})}, over);
  const ValueId sum = n.Op("add", {variance, n.Scalar(type, n.Float("epsilon", 1e-5))});
  if (n.wants(1)) KILN_RETURN_IF_ERROR(n.Give(1, n.Op("cast", {mean}, {{"to", *statistics}})));
  if (n.wants(2)) {
    const ValueId inverse = n.Op("reciprocal", {n.Op("sqrt", {sum})});
    KILN_RETURN_IF_ERROR(n.Give(2, n.Op("cast", {inverse}, {{"to", *statistics}})));
  }
  return AsRecord(n);
}

// In training, mean and variance are the batch's own, and outputs 1 and 2 the running ones.
absl::Status TrainedBatchNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(5, 5));
  const double momentum = n.Float("momentum", 0.9);
  const double epsilon = n.Float("epsilon", 1e-5);
  Axes others = AxesFrom(0, n.rank(0));
  if (others.size() < 2) return absl::InvalidArgumentError("needs two dims at least");
  others.erase(others.begin() + 1);
  const DType type = ComputeType(n.value(0).type);
  const ValueId x = Cast(n, n.in(0), type);
  const ValueId mean = Reduce(n, "reduce_mean", x, others);
  const ValueId difference = n.Op("sub", {x, mean});
  const ValueId variance = Reduce(n, "reduce_mean", n.Op("mul", {difference, difference}), others);
  const auto running = [&](int output, int input, ValueId now) -> absl::Status {
    if (!n.wants(output)) return absl::OkStatus();
    const DType stored = n.value(input).type;
    const ValueId old = n.Op("mul", {n.in(input), n.Scalar(stored, momentum)});
    const ValueId part =
        n.Op("mul", {Cast(n, Squeeze(n, now, others), stored), n.Scalar(stored, 1 - momentum)});
    return n.Give(output, n.Op("add", {old, part}));
  };
  KILN_RETURN_IF_ERROR(running(1, 3, mean));
  KILN_RETURN_IF_ERROR(running(2, 4, variance));
  return n.Emit("batch_norm",
                {n.in(0), n.in(1), n.in(2), Squeeze(n, mean, others), Squeeze(n, variance, others)},
                {{"epsilon", epsilon}});
}

absl::Status BatchNormalization(NodeView& n) {
  const bool by_batch = n.Int("training_mode", 0) != 0;
  if (by_batch && !(n.training() && !n.wants(1) && !n.wants(2)))
    return TrainedBatchNormalization(n);
  n.Ignore("momentum");
  bool trained = n.opset() < 7 && n.Int("is_test", 0) == 0;
  // Before the attribute, running statistics among the outputs said it.
  if (n.opset() < 14) trained = trained || (!n.training() && (n.names(1) || n.names(2)));
  if (trained) return absl::UnimplementedError("training mode is not supported");
  if (n.Int("spatial", 1) != 1) return absl::UnimplementedError("spatial = 0 is not supported");
  return AsRecord(n);
}

// x / sqrt(mean(x * x) + epsilon) * scale over the axes from `axis` on, in f32 or wider: squares of
// 16-bit floats overflow. The result has the type of the scale.
absl::Status RmsNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  n.Ignore("stash_type");  // it is f32 or wider
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", -1), n.rank(0)));
  std::vector<int64_t> axes;
  for (int64_t a = axis; a < n.rank(0); ++a) axes.push_back(a);
  const DType stored = n.value(1).type;
  const DType type = WiderOf(ComputeType(n.value(0).type), ComputeType(stored));
  KILN_RETURN_IF_ERROR(CheckNoWider(n, 1, "scale"));
  const ValueId x = Cast(n, n.in(0), type);
  const ValueId mean = Reduce(n, "reduce_mean", n.Op("mul", {x, x}), std::move(axes));
  const ValueId epsilon = n.Scalar(type, n.Float("epsilon", 1e-5));
  const ValueId normal = n.Op("div", {x, n.Op("sqrt", {n.Op("add", {mean, epsilon})})});
  const ValueId y = n.Op("mul", {normal, Cast(n, n.in(1), type)});
  return n.Emit("cast", {y}, {{"to", stored}});
}

// A vector over `count` groups or channels as [count, 1, 1, ...], to fit the axes of `x` from the
// second on.
ValueId OverAxisOne(NodeView& n, ValueId vector, int rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < rank - 1; ++axis) axes.push_back(axis);
  return n.Op("unsqueeze", {vector}, {{"axes", axes}});
}

// The channels in groups, each normalised like an instance. Scale and bias are per group until
// operator set 20 and per channel since 21. 16-bit floats are widened first and narrowed last.
absl::Status GroupNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 3));
  n.Ignore("stash_type");
  const Shape shape = n.value(0).shape;  // a copy: values move when nodes are added
  const int rank = n.rank(0);
  const int64_t groups = n.Int("num_groups", 0);
  if (rank < 2 || groups < 1)
    return absl::InvalidArgumentError("needs two dims and one group at least");
  const std::optional<Dim> width = shape[1].DivideExactly(groups);
  if (!width)
    return ExtentsError({shape[1]}, absl::StrCat(shape[1].ToString(), " channels do not divide by ",
                                                 groups, " groups"));
  const Attrs apart = {
      {"shape",
       DimsValue({shape[0], groups, *width * Product(Shape(shape.begin() + 2, shape.end()))})},
      {"allowzero", int64_t{1}}};
  const Attrs together = {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}};
  const Attrs epsilon = {{"epsilon", n.Float("epsilon", 1e-5)}};
  if (n.opset() < 21) {
    const ValueId x = n.Op("reshape", {n.in(0)}, apart);
    return n.Emit("reshape", {n.Op("instance_norm", {x, n.in(1), n.in(2)}, epsilon)}, together);
  }
  const DType stored = n.value(0).type, type = ComputeType(stored);
  const ValueId x = n.Op("reshape", {Cast(n, n.in(0), type)}, apart);
  const auto all = [&](double value) {
    return n.Op("expand", {n.Scalar(type, value)}, {{"shape", std::vector<int64_t>{groups}}});
  };
  const ValueId normal =
      n.Op("reshape", {n.Op("instance_norm", {x, all(1), all(0)}, epsilon)}, together);
  const auto channels = [&](int k) { return OverAxisOne(n, Cast(n, n.in(k), type), rank); };
  const std::vector<ValueId> parts = {n.Op("mul", {normal, channels(1)}), channels(2)};
  if (type == stored) return n.Emit("add", parts);
  return n.Emit("cast", {n.Op("add", parts)}, {{"to", stored}});
}

// (x - mean) / (sqrt(mean(x * x) - mean * mean) + 1e-9), as ONNX defines it, in f32 or wider.
absl::Status MeanVarianceNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                        n.Axes(n.Ints("axes", {0, 2, 3}), n.rank(0)));
  const DType stored = n.value(0).type, type = ComputeType(stored);
  const ValueId x = Cast(n, n.in(0), type);
  const ValueId mean = Reduce(n, "reduce_mean", x, axes);
  const ValueId square = Reduce(n, "reduce_mean", n.Op("mul", {x, x}), axes);
  const ValueId deviation = n.Op("sqrt", {n.Op("sub", {square, n.Op("mul", {mean, mean})})});
  const ValueId y =
      n.Op("div", {n.Op("sub", {x, mean}), n.Op("add", {deviation, n.Scalar(type, 1e-9)})});
  return n.Emit("cast", {y}, {{"to", stored}});
}

constexpr Converter kNeuralRows[] = {
    {"AveragePool", 6, AveragePool},
    {"BatchNormalization", 6, BatchNormalization, "batch_norm"},
    {"Conv", 6, Conv},
    {"ConvTranspose", 6, ConvTranspose},
    {"Gemm", 6, OldGemm, "gemm"},
    {"GlobalLpPool", 6, GlobalLpPool},
    {"GroupNormalization", 18, GroupNormalization},
    {"LayerNormalization", 17, LayerNormalization, "layer_norm"},
    {"LogSoftmax", 6, FlatSoftmax, "log_softmax"},
    {"LpPool", 6, LpPool},
    {"MaxPool", 6, MaxPool},
    {"MeanVarianceNormalization", 9, MeanVarianceNormalization},
    {"RMSNormalization", 23, RmsNormalization},
    {"Softmax", 6, FlatSoftmax, "softmax"},
};

}  // namespace

absl::StatusOr<Attrs> ConvAttrs(NodeView& n, int weight) {
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> kernel, KernelOf(n, weight));
  KILN_ASSIGN_OR_RETURN(const Window w, ReadWindow(n, std::move(kernel)));
  return Attrs{{"strides", w.strides},
               {"pads", w.pads},
               {"dilations", w.dilations},
               {"group", n.Int("group", 1)}};
}

std::span<const Converter> NeuralConverters() { return kNeuralRows; }

}  // namespace kiln::onnx
