// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolution, pooling, softmax and the normalisations.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/graph/onnx/converter.h"
#include "kiln/graph/onnx/node_view.h"
#include "kiln/graph/op.h"

namespace kiln::onnx {
namespace {

absl::Status Gemm(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  n.Ignore("broadcast");  // of operator set 6: the third input broadcasts anyway
  Attrs attrs = {{"alpha", n.Float("alpha", 1)},
                 {"beta", n.Float("beta", 1)},
                 {"trans_a", n.Int("transA", 0)},
                 {"trans_b", n.Int("transB", 0)}};
  std::vector<ValueId> inputs = {n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  return n.Emit("gemm", std::move(inputs), std::move(attrs));
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
absl::StatusOr<Window> ReadWindow(NodeView& n, std::vector<int64_t> kernel) {
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
  if (pad == "SAME_UPPER" || pad == "SAME_LOWER") {
    KILN_ASSIGN_OR_RETURN(w.pads, SamePads(n, w, pad == "SAME_UPPER"));
  } else if (pad != "NOTSET" && pad != "VALID" && !pad.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "auto_pad is \"", pad, "\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  }
  return w;
}

// Extents of a weight from its third dim on.
absl::StatusOr<std::vector<int64_t>> KernelOf(const NodeView& n) {
  if (n.rank(1) != n.rank(0) || n.rank(1) < 3) {
    return absl::InvalidArgumentError(absl::StrCat("weight has rank ", n.rank(1), " and input ",
                                                   n.rank(0), ", expected the same, from 3"));
  }
  const Shape& shape = n.value(1).shape;
  const auto kernel = Constant(Shape(shape.begin() + 2, shape.end()));
  if (!kernel)
    return absl::UnimplementedError(
        absl::StrCat("weight has shape ", ToString(shape), ", which is not fixed"));
  return *kernel;
}

absl::Status Conv(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> kernel, KernelOf(n));
  KILN_ASSIGN_OR_RETURN(const Window w, ReadWindow(n, std::move(kernel)));
  std::vector<ValueId> inputs = {n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  return n.Emit("conv", std::move(inputs),
                {{"strides", w.strides},
                 {"pads", w.pads},
                 {"dilations", w.dilations},
                 {"group", n.Int("group", 1)}});
}

absl::Status ConvTranspose(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  if (n.Text("auto_pad", "NOTSET") != "NOTSET" || n.HasAttr("output_shape")) {
    return absl::UnimplementedError("output_shape and auto_pad are not supported");
  }
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> kernel, KernelOf(n));
  KILN_ASSIGN_OR_RETURN(const Window w, ReadWindow(n, std::move(kernel)));
  std::vector<ValueId> inputs = {n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  return n.Emit(
      "conv_transpose", std::move(inputs),
      {{"strides", w.strides},
       {"pads", w.pads},
       {"dilations", w.dilations},
       {"group", n.Int("group", 1)},
       {"output_padding", n.Ints("output_padding", std::vector<int64_t>(w.strides.size(), 0))}});
}

absl::Status MaxPool(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  n.Ignore("storage_order");  // only of the indices, which are not made
  KILN_ASSIGN_OR_RETURN(const Window w, ReadWindow(n, {}));
  return n.Emit("max_pool", {n.in(0)},
                {{"kernel", w.kernel},
                 {"strides", w.strides},
                 {"pads", w.pads},
                 {"dilations", w.dilations},
                 {"ceil_mode", n.Int("ceil_mode", 0)}});
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

// The optional outputs are the mean and 1 / sqrt(variance + epsilon), in f32 for narrow inputs.
absl::Status LayerNormalization(NodeView& n) {
  n.Ignore("stash_type");  // sums are made in f32 or wider anyway
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
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
  if (n.wants(1)) KILN_RETURN_IF_ERROR(n.Give(1, mean));
  if (n.wants(2)) KILN_RETURN_IF_ERROR(n.Give(2, n.Op("reciprocal", {n.Op("sqrt", {sum})})));
  return AsRecord(n);
}

absl::Status BatchNormalization(NodeView& n) {
  n.Ignore("momentum");
  if (n.Int("training_mode", 0) != 0)
    return absl::UnimplementedError("training mode is not supported");
  if (n.opset() < 7 && n.Int("is_test", 0) == 0)
    return absl::UnimplementedError("training mode is not supported");
  if (n.Int("spatial", 1) != 1) return absl::UnimplementedError("spatial = 0 is not supported");
  return AsRecord(n);
}

// x / sqrt(mean(x * x) + epsilon) * scale over the axes from `axis` on.
absl::Status RmsNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  n.Ignore("stash_type");
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", -1), n.rank(0)));
  std::vector<int64_t> axes;
  for (int64_t a = axis; a < n.rank(0); ++a) axes.push_back(a);
  const ValueId squares = n.Op("mul", {n.in(0), n.in(0)});
  const ValueId mean = n.Op("reduce_mean", {squares}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const ValueId epsilon = n.Scalar(n.value(0).type, n.Float("epsilon", 1e-5));
  const ValueId normal = n.Op("div", {n.in(0), n.Op("sqrt", {n.Op("add", {mean, epsilon})})});
  return n.Emit("mul", {normal, n.in(1)});
}

// A vector over `count` groups or channels as [count, 1, 1, ...], to fit the axes of `x` from the
// second on.
ValueId OverAxisOne(NodeView& n, ValueId vector, int rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < rank - 1; ++axis) axes.push_back(axis);
  return n.Op("unsqueeze", {vector}, {{"axes", axes}});
}

// The channels in groups, each normalised like an instance. Scale and bias are per group until
// operator set 20 and per channel since 21.
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
    return absl::InvalidArgumentError(
        absl::StrCat(shape[1].ToString(), " channels do not divide by ", groups, " groups"));
  const Attrs apart = {
      {"shape",
       DimsValue({shape[0], groups, *width * Product(Shape(shape.begin() + 2, shape.end()))})},
      {"allowzero", int64_t{1}}};
  const Attrs together = {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}};
  const Attrs epsilon = {{"epsilon", n.Float("epsilon", 1e-5)}};
  const ValueId x = n.Op("reshape", {n.in(0)}, apart);
  if (n.opset() < 21)
    return n.Emit("reshape", {n.Op("instance_norm", {x, n.in(1), n.in(2)}, epsilon)}, together);
  const DType type = n.value(0).type;
  const auto all = [&](double value) {
    return n.Op("expand", {n.Scalar(type, value)}, {{"shape", std::vector<int64_t>{groups}}});
  };
  const ValueId normal =
      n.Op("reshape", {n.Op("instance_norm", {x, all(1), all(0)}, epsilon)}, together);
  return n.Emit(
      "add", {n.Op("mul", {normal, OverAxisOne(n, n.in(1), rank)}), OverAxisOne(n, n.in(2), rank)});
}

// (x - mean) / (sqrt(mean(x * x) - mean * mean) + 1e-9), as ONNX defines it.
absl::Status MeanVarianceNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                        n.Axes(n.Ints("axes", {0, 2, 3}), n.rank(0)));
  const Attrs over = {{"axes", axes}, {"keepdims", int64_t{1}}};
  const ValueId mean = n.Op("reduce_mean", {n.in(0)}, over);
  const ValueId square = n.Op("reduce_mean", {n.Op("mul", {n.in(0), n.in(0)})}, over);
  const ValueId deviation = n.Op("sqrt", {n.Op("sub", {square, n.Op("mul", {mean, mean})})});
  return n.Emit("div", {n.Op("sub", {n.in(0), mean}),
                        n.Op("add", {deviation, n.Scalar(n.value(0).type, 1e-9)})});
}

constexpr Converter kRows[] = {
    {"AveragePool", 6, AveragePool},
    {"BatchNormalization", 6, BatchNormalization, "batch_norm"},
    {"Conv", 6, Conv},
    {"ConvTranspose", 6, ConvTranspose},
    {"Gemm", 6, Gemm},
    {"GlobalAveragePool", 6, AsRecord, "global_average_pool"},
    {"GlobalMaxPool", 6, AsRecord, "global_max_pool"},
    {"GroupNormalization", 18, GroupNormalization},
    {"InstanceNormalization", 6, AsRecord, "instance_norm"},
    {"LayerNormalization", 17, LayerNormalization, "layer_norm"},
    {"LogSoftmax", 6, FlatSoftmax, "log_softmax"},
    {"LogSoftmax", 13, AsRecord, "log_softmax"},
    {"MatMul", 6, AsRecord, "matmul"},
    {"MaxPool", 6, MaxPool},
    {"MeanVarianceNormalization", 9, MeanVarianceNormalization},
    {"RMSNormalization", 23, RmsNormalization},
    {"Softmax", 6, FlatSoftmax, "softmax"},
    {"Softmax", 13, AsRecord, "softmax"},
};

}  // namespace

std::span<const Converter> NeuralConverters() { return kRows; }

}  // namespace kiln::onnx
