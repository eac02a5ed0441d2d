// SPDX-License-Identifier: Apache-2.0
// Constants, shape arithmetic and operators that move data without computing.
#include <algorithm>
#include <cmath>
#include <numeric>
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

// ---- constants

template <typename T>
Tensor TensorOf(DType type, std::vector<int64_t> shape, const std::vector<T>& values) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.data()));
  return tensor;
}

absl::Status Constant(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(0, 0));
  std::optional<Tensor> tensor;
  if (n.HasAttr("value")) {
    tensor = n.TensorAttr("value");
  } else if (n.HasAttr("value_float")) {
    tensor = TensorOf<float>(DType::kF32, {}, {static_cast<float>(n.Float("value_float", 0))});
  } else if (n.HasAttr("value_int")) {
    tensor = TensorOf<int64_t>(DType::kI64, {}, {n.Int("value_int", 0)});
  } else if (n.HasAttr("value_floats")) {
    const std::vector<double> wide = n.Floats("value_floats");
    const std::vector<float> values(wide.begin(), wide.end());
    tensor = TensorOf<float>(DType::kF32, {static_cast<int64_t>(values.size())}, values);
  } else if (n.HasAttr("value_ints")) {
    const std::vector<int64_t> values = n.Ints("value_ints");
    tensor = TensorOf<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
  } else {
    return absl::UnimplementedError("strings and sparse tensors are not supported");
  }
  KILN_RETURN_IF_ERROR(n.status());
  return n.Give(0, n.Constant(*std::move(tensor)));
}

absl::Status ConstantOfShape(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  std::optional<Tensor> value = n.TensorAttr("value");
  KILN_RETURN_IF_ERROR(n.status());
  if (!value) value = TensorOf<float>(DType::kF32, {}, {0.0f});
  if (value->num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("attribute value has ", value->num_elements(), " elements, expected 1"));
  }
  return n.Emit("constant_of_shape", {n.in(0)}, {{"value", *value}});
}

absl::Status Range(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 3));
  return n.Emit("range", n.inputs());
}

// ---- shapes

absl::Status ShapeOf(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t rank = n.rank(0);
  const auto clamp = [rank](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(std::max(n.Int("start", 0), -rank));
  const int64_t end = clamp(std::max(n.Int("end", rank), -rank - 1));
  return n.Emit("shape", {n.in(0)}, {{"start", start}, {"end", std::max(start, end)}});
}

absl::Status Size(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return n.Emit("size", {n.in(0)});
}

absl::Status Reshape(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  return n.Emit("reshape", {n.in(0), n.in(1)}, {{"allowzero", n.Int("allowzero", 0)}});
}

absl::Status Expand(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  return n.Emit("expand", n.inputs());
}

absl::Status Flatten(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t rank = n.rank(0);
  const int64_t axis = n.Int("axis", 1);
  if (axis < -rank || axis > rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is outside [", -rank, ", ", rank, "]"));
  }
  return n.Emit("flatten", {n.in(0)}, {{"axis", axis < 0 ? axis + rank : axis}});
}

// An attribute until operator set 12, an input since 13; either form is read at any version.
absl::StatusOr<std::vector<int64_t>> AxesOperand(NodeView& n, int64_t rank) {
  std::vector<int64_t> axes = n.Ints("axes");
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(axes, n.ConstInts(1, "axes"));
  }
  return n.Axes(std::move(axes), rank);
}

absl::Status Squeeze(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> axes, AxesOperand(n, n.rank(0)));
  if (!n.HasAttr("axes") && !n.has(1)) {
    for (int64_t axis = 0; axis < n.rank(0); ++axis) {
      const Dim& extent = n.value(0).shape[static_cast<size_t>(axis)];
      if (!extent.constant()) {
        return absl::UnimplementedError(absl::StrCat("without axes, and extent ", extent.ToString(), " may be 1 or not"));
      }
      if (extent.IsConst(1)) axes.push_back(axis);
    }
  }
  return n.Emit("squeeze", {n.in(0)}, {{"axes", axes}});
}

absl::Status Unsqueeze(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  if (!n.HasAttr("axes") && !n.has(1)) return absl::InvalidArgumentError("axes are missing");
  // Axes count in the result, whose rank follows from how many there are.
  std::vector<int64_t> axes = n.Ints("axes");
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(axes, n.ConstInts(1, "axes"));
  }
  const int64_t rank = n.rank(0) + static_cast<int64_t>(axes.size());
  KILN_ASSIGN_OR_RETURN(axes, n.Axes(std::move(axes), rank));
  return n.Emit("unsqueeze", {n.in(0)}, {{"axes", axes}});
}

absl::Status Transpose(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  std::vector<int64_t> perm(static_cast<size_t>(n.rank(0)));
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = n.Ints("perm", perm);
  KILN_ASSIGN_OR_RETURN(perm, n.Axes(std::move(perm), n.rank(0)));
  if (perm.size() != static_cast<size_t>(n.rank(0))) {
    return absl::InvalidArgumentError(absl::StrCat("perm has ", perm.size(), " elements, but the input has rank ", n.rank(0)));
  }
  return n.Emit("transpose", {n.in(0)}, {{"perm", perm}});
}

// ---- pieces

absl::Status Concat(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, n.num_inputs()));
  for (int k = 0; k < n.num_inputs(); ++k) {
    if (!n.has(k)) return absl::InvalidArgumentError(absl::StrCat("input ", k, " is left out, but it is not optional"));
  }
  if (!n.HasAttr("axis")) return absl::InvalidArgumentError("attribute \"axis\" is missing");
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 0), n.rank(0)));
  return n.Emit("concat", n.inputs(), {{"axis", axis}});
}

// Parts of equal size, the last one smaller where it does not come out even.
absl::StatusOr<std::vector<int64_t>> EqualParts(const Dim& extent, int64_t parts) {
  const std::optional<int64_t> size = extent.constant();
  if (!size) return absl::UnimplementedError(absl::StrCat("the axis has extent ", extent.ToString(), ", and no sizes are given"));
  const int64_t each = (*size + parts - 1) / parts;
  std::vector<int64_t> sizes(static_cast<size_t>(parts), each);
  sizes.back() = *size - each * (parts - 1);
  if (sizes.back() < 0) return absl::InvalidArgumentError(absl::StrCat("extent ", *size, " cannot be split into ", parts, " parts"));
  return sizes;
}

absl::Status Split(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 0), n.rank(0)));
  const int64_t parts = n.Int("num_outputs", n.num_outputs());
  if (parts < 1 || parts != n.num_outputs()) {
    return absl::InvalidArgumentError(absl::StrCat("num_outputs is ", parts, ", but the node has ", n.num_outputs()));
  }
  std::vector<int64_t> sizes = n.Ints("split");
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(sizes, n.ConstInts(1, "split"));
  } else if (sizes.empty()) {
    KILN_ASSIGN_OR_RETURN(sizes, EqualParts(n.value(0).shape[static_cast<size_t>(axis)], parts));
  }
  if (static_cast<int64_t>(sizes.size()) != parts) {
    return absl::InvalidArgumentError(absl::StrCat("split has ", sizes.size(), " sizes, but the node has ", parts, " outputs"));
  }
  return n.Emit("split", {n.in(0)}, {{"axis", axis}, {"split", sizes}});
}

absl::Status Gather(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 0), n.rank(0)));
  return n.Emit("gather", n.inputs(), {{"axis", axis}});
}

absl::Status EmitSlice(NodeView& n, const Shape& starts, const Shape& ends, std::vector<int64_t> axes, std::vector<int64_t> steps) {
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size()) {
    return absl::InvalidArgumentError(absl::StrCat("starts, ends, axes and steps have ", starts.size(), ", ", ends.size(), ", ",
                                                   axes.size(), " and ", steps.size(), " elements, expected the same number"));
  }
  KILN_ASSIGN_OR_RETURN(axes, n.Axes(std::move(axes), n.rank(0)));
  return n.Emit("slice", {n.in(0)}, {{"starts", DimsValue(starts)}, {"ends", DimsValue(ends)}, {"axes", axes}, {"steps", steps}});
}

absl::Status SliceByAttributes(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return EmitSlice(n, ToShape(n.Ints("starts")), ToShape(n.Ints("ends")), n.Ints("axes"), {});
}

absl::Status SliceByInputs(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 5));
  KILN_ASSIGN_OR_RETURN(const Shape starts, n.Content(1, "starts"));
  KILN_ASSIGN_OR_RETURN(const Shape ends, n.Content(2, "ends"));
  std::vector<int64_t> axes, steps;
  if (n.has(3)) {
    KILN_ASSIGN_OR_RETURN(axes, n.ConstInts(3, "axes"));
  }
  if (n.has(4)) {
    KILN_ASSIGN_OR_RETURN(steps, n.ConstInts(4, "steps"));
  }
  return EmitSlice(n, starts, ends, std::move(axes), std::move(steps));
}

absl::Status EmitPad(NodeView& n, const Shape& pads, double value) {
  const std::string mode = n.Text("mode", "constant");
  if (pads.size() != 2 * static_cast<size_t>(n.rank(0))) {
    return absl::InvalidArgumentError(
        absl::StrCat("pads has ", pads.size(), " elements, expected two for each of ", n.rank(0), " dims"));
  }
  return n.Emit("pad", {n.in(0)}, {{"pads", DimsValue(pads)}, {"mode", mode}, {"value", value}});
}

absl::Status PadByAttributes(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return EmitPad(n, ToShape(n.Ints("pads")), n.Float("value", 0));
}

absl::Status PadByInputs(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 4));
  KILN_ASSIGN_OR_RETURN(Shape pads, n.Content(1, "pads"));
  double value = 0;
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<double> given, n.ConstFloats(2, "constant_value"));
    if (given.size() != 1) return absl::InvalidArgumentError(absl::StrCat("constant_value has ", given.size(), " elements, expected 1"));
    value = given[0];
  }
  if (n.has(3)) {
    KILN_ASSIGN_OR_RETURN(std::vector<int64_t> axes, n.ConstInts(3, "axes"));
    KILN_ASSIGN_OR_RETURN(axes, n.Axes(std::move(axes), n.rank(0)));
    if (pads.size() != 2 * axes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pads has ", pads.size(), " elements, expected two for each of ", axes.size(), " axes"));
    }
    Shape all(2 * static_cast<size_t>(n.rank(0)));
    for (size_t i = 0; i < axes.size(); ++i) {
      all[static_cast<size_t>(axes[i])] = pads[i];
      all[static_cast<size_t>(axes[i] + n.rank(0))] = pads[axes.size() + i];
    }
    pads = std::move(all);
  }
  return EmitPad(n, pads, value);
}

// ---- repetition and blocks, as reshape, expand and transpose

ValueId ReshapeTo(NodeView& n, ValueId x, const Shape& shape) { return n.Op("reshape", {x}, {{"shape", DimsValue(shape)}}); }

// Every element of axis i becomes outer[i] copies of the whole axis, of which each element stands inner[i] times in a row.
absl::Status Repeat(NodeView& n, const Shape& outer, const Shape& inner) {
  Shape apart, wide, together;
  for (int i = 0; i < n.rank(0); ++i) {
    const auto at = static_cast<size_t>(i);
    const Dim& extent = n.value(0).shape[at];
    if (!outer[at].IsConst(1)) {
      apart.push_back(1);
      wide.push_back(outer[at]);
    }
    apart.push_back(extent);
    wide.push_back(extent);
    if (!inner[at].IsConst(1)) {
      apart.push_back(1);
      wide.push_back(inner[at]);
    }
    together.push_back(outer[at] * extent * inner[at]);
  }
  if (apart.size() == together.size()) return n.Emit("identity", {n.in(0)});
  if (apart.size() > static_cast<size_t>(kMaxRank)) return absl::UnimplementedError("has too many dims");
  const ValueId copies = n.Op("expand", {ReshapeTo(n, n.in(0), apart)}, {{"shape", DimsValue(wide)}});
  return n.Emit("reshape", {copies}, {{"shape", DimsValue(together)}});
}

absl::Status Tile(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_ASSIGN_OR_RETURN(const Shape repeats, n.Content(1, "repeats"));
  if (repeats.size() != static_cast<size_t>(n.rank(0))) {
    return absl::InvalidArgumentError(absl::StrCat("repeats has ", repeats.size(), " elements, but the input has rank ", n.rank(0)));
  }
  return Repeat(n, repeats, Shape(repeats.size(), 1));
}

// Enlarging by whole factors, each output element the nearest input element.
absl::Status EnlargeNearest(NodeView& n, const std::vector<double>& scales) {
  if (scales.size() != static_cast<size_t>(n.rank(0))) {
    return absl::InvalidArgumentError(absl::StrCat("scales has ", scales.size(), " elements, but the input has rank ", n.rank(0)));
  }
  Shape inner;
  for (const double scale : scales) {
    if (!(scale >= 1 && scale <= 1024 && scale == std::floor(scale))) {
      return absl::UnimplementedError(absl::StrCat("scale ", scale, " is not supported, only whole numbers from 1"));
    }
    inner.push_back(static_cast<int64_t>(scale));
  }
  return Repeat(n, Shape(inner.size(), 1), inner);
}

absl::Status UpsampleByAttribute(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  if (n.Text("mode", "nearest") != "nearest") return absl::UnimplementedError("only mode nearest is supported");
  return EnlargeNearest(n, n.Floats("scales"));
}

absl::Status UpsampleByInput(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  if (n.Text("mode", "nearest") != "nearest") return absl::UnimplementedError("only mode nearest is supported");
  KILN_ASSIGN_OR_RETURN(const std::vector<double> scales, n.ConstFloats(1, "scales"));
  return EnlargeNearest(n, scales);
}

// The factors by which `sizes` enlarge the input's extents.
absl::StatusOr<std::vector<double>> ScalesOf(const NodeView& n, const Shape& sizes) {
  const Shape& shape = n.value(0).shape;
  std::vector<double> scales;
  for (size_t i = 0; i < sizes.size() && i < shape.size(); ++i) {
    std::optional<Dim> factor;
    if (sizes[i] == shape[i]) {
      factor = Dim(1);
    } else if (!shape[i].IsConst(0)) {
      factor = sizes[i].DivideExactly(shape[i]);
    }
    if (!factor || !factor->constant()) {
      return absl::UnimplementedError(
          absl::StrCat("size ", sizes[i].ToString(), " is not a whole multiple of ", shape[i].ToString()));
    }
    scales.push_back(static_cast<double>(*factor->constant()));
  }
  return scales;
}

absl::Status Resize(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 4));
  const std::string mode = n.Text("mode", "nearest");
  const std::string place = n.Text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = n.Text("nearest_mode", "round_prefer_floor");
  n.Ignore("cubic_coeff_a");
  n.Ignore("extrapolation_value");  // only of tf_crop_and_resize
  n.Ignore("exclude_outside");
  n.Ignore("antialias");  // only when made smaller
  const bool nearest = mode == "nearest" && ((place == "asymmetric" && rounding == "floor") ||
                                             (place == "half_pixel" && rounding.rfind("round_prefer_", 0) == 0));
  if (!nearest || n.HasAttr("axes")) {
    return absl::UnimplementedError(absl::StrCat("mode ", mode, " with ", place, " and ", rounding, " is not supported"));
  }
  if (n.Text("keep_aspect_ratio_policy", "stretch") != "stretch") return absl::UnimplementedError("keep_aspect_ratio_policy is not supported");
  if (n.has(3)) {
    KILN_ASSIGN_OR_RETURN(const Shape sizes, n.Content(3, "sizes"));
    KILN_ASSIGN_OR_RETURN(const std::vector<double> scales, ScalesOf(n, sizes));
    return EnlargeNearest(n, scales);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<double> scales, n.ConstFloats(2, "scales"));
  return EnlargeNearest(n, scales);
}

struct Image {
  Dim batch, channels, height, width;
  int64_t block;
};

absl::StatusOr<Image> ReadBlocks(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const Shape& s = n.value(0).shape;
  if (s.size() != 4) return absl::InvalidArgumentError(absl::StrCat("input has rank ", s.size(), ", expected 4"));
  const int64_t block = n.Int("blocksize", 0);
  if (block < 1 || block > 65536) return absl::InvalidArgumentError(absl::StrCat("blocksize is ", block, ", expected 1 to 65536"));
  return Image{s[0], s[1], s[2], s[3], block};
}

absl::Status DepthToSpace(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Image x, ReadBlocks(n));
  const std::string mode = n.Text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return absl::InvalidArgumentError(absl::StrCat("mode is \"", mode, "\", expected DCR or CRD"));
  const std::optional<Dim> depth = x.channels.DivideExactly(x.block * x.block);
  if (!depth) {
    return absl::InvalidArgumentError(absl::StrCat(x.channels.ToString(), " channels are not divisible by the square of ", x.block));
  }
  const bool dcr = mode == "DCR";
  const Shape apart = dcr ? Shape{x.batch, x.block, x.block, *depth, x.height, x.width}
                          : Shape{x.batch, *depth, x.block, x.block, x.height, x.width};
  const std::vector<int64_t> perm = dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3};
  const ValueId blocks = n.Op("transpose", {ReshapeTo(n, n.in(0), apart)}, {{"perm", perm}});
  return n.Emit("reshape", {blocks}, {{"shape", DimsValue({x.batch, *depth, x.height * x.block, x.width * x.block})}});
}

absl::Status SpaceToDepth(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Image x, ReadBlocks(n));
  const std::optional<Dim> height = x.height.DivideExactly(x.block);
  const std::optional<Dim> width = x.width.DivideExactly(x.block);
  if (!height || !width) {
    return absl::UnimplementedError(absl::StrCat("extents ", x.height.ToString(), " and ", x.width.ToString(),
                                                 " are not known to be multiples of ", x.block));
  }
  const Shape apart = {x.batch, x.channels, *height, x.block, *width, x.block};
  const ValueId blocks =
      n.Op("transpose", {ReshapeTo(n, n.in(0), apart)}, {{"perm", std::vector<int64_t>{0, 3, 5, 1, 2, 4}}});
  return n.Emit("reshape", {blocks}, {{"shape", DimsValue({x.batch, x.channels * x.block * x.block, *height, *width})}});
}

constexpr Converter kRows[] = {
    {"Concat", 7, Concat},
    {"Constant", 7, Constant},
    {"ConstantOfShape", 9, ConstantOfShape},
    {"DepthToSpace", 7, DepthToSpace},
    {"Expand", 8, Expand},
    {"Flatten", 7, Flatten},
    {"Gather", 7, Gather},
    {"Pad", 7, PadByAttributes},
    {"Pad", 11, PadByInputs},
    {"Range", 11, Range},
    {"Reshape", 7, Reshape},
    {"Resize", 10, UpsampleByInput},  // no transformations yet: asymmetric and floor
    {"Resize", 11, Resize},
    {"Shape", 7, ShapeOf},
    {"Size", 7, Size},
    {"Slice", 7, SliceByAttributes},
    {"Slice", 10, SliceByInputs},
    {"SpaceToDepth", 7, SpaceToDepth},
    {"Split", 7, Split},
    {"Squeeze", 7, Squeeze},
    {"Tile", 7, Tile},
    {"Transpose", 7, Transpose},
    {"Unsqueeze", 7, Unsqueeze},
    {"Upsample", 7, UpsampleByAttribute},
    {"Upsample", 9, UpsampleByInput},
};

}  // namespace

std::span<const Converter> ShapeConverters() { return kRows; }

}  // namespace kiln::onnx
