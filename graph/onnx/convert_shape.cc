// SPDX-License-Identifier: Apache-2.0
// Constants, shape arithmetic and operators that move data without computing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

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

// ---- shapes

absl::Status ShapeOperator(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t rank = n.rank(0);
  const auto clamp = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(std::max(n.Int("start", 0), -rank));
  const int64_t end = clamp(std::max(n.Int("end", rank), -rank - 1));
  return n.Emit("shape", {n.in(0)}, {{"start", start}, {"end", std::max(start, end)}});
}

// ---- pieces

// The sizes are an attribute, an input, or follow from the number of outputs.
absl::Status Split(NodeView& n) {
  const int64_t parts = n.Int("num_outputs", n.num_outputs());
  if (parts != n.num_outputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_outputs is ", parts, ", but the node has ", n.num_outputs()));
  }
  // There may be more sizes than a tensor has whose elements are followed.
  if (n.has(1) && n.value(1).constant) {
    KILN_RETURN_IF_ERROR(n.Need(2, 2));
    KILN_ASSIGN_OR_RETURN(const Shape sizes, n.Content(1, "split"));
    return n.Emit("split", {n.in(0)}, {{"axis", n.Int("axis", 0)}, {"split", DimsValue(sizes)}});
  }
  return AsRecord(n);
}

// Attributes before operator set 10, inputs since; either form is read at any version.
absl::StatusOr<Shape> SliceOperand(NodeView& n, int input, absl::string_view name) {
  if (n.has(input)) return n.Content(input, name);
  return ToShape(n.Ints(name));
}

absl::Status Slice(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 5));
  KILN_ASSIGN_OR_RETURN(const Shape starts, SliceOperand(n, 1, "starts"));
  KILN_ASSIGN_OR_RETURN(const Shape ends, SliceOperand(n, 2, "ends"));
  KILN_ASSIGN_OR_RETURN(Shape axes, SliceOperand(n, 3, "axes"));
  KILN_ASSIGN_OR_RETURN(Shape steps, SliceOperand(n, 4, "steps"));
  for (size_t i = axes.size(); axes.size() < starts.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  return n.Emit("slice", {n.in(0)},
                {{"starts", DimsValue(starts)},
                 {"ends", DimsValue(ends)},
                 {"axes", DimsValue(axes)},
                 {"steps", DimsValue(steps)}});
}

// Places along an axis of extent `in` that stand before, in and behind it under a mode of padding.
ValueId PaddedPlaces(NodeView& n, const std::string& mode, const Dim& before, const Dim& out,
                     ValueId extent) {
  const auto number = [&](double value) { return n.Scalar(DType::kI64, value); };
  ValueId at = Coordinates(n, out, 0, 1);
  if (const auto shift = before.constant()) {
    at = n.Op("sub", {at, number(static_cast<double>(*shift))});
  }
  const ValueId last = n.Op("sub", {extent, number(1)});
  if (mode == "edge") return n.Op("clip", {at, number(0), last});
  if (mode == "wrap") return n.Op("mod", {at, extent});
  // The places repeat with a period of 2 * (extent - 1), forth and back; of one place, with 1.
  const ValueId period = n.Op("max", {n.Op("mul", {last, number(2)}), number(1)});
  const ValueId forth = n.Op("mod", {at, period});
  return n.Op("min", {forth, n.Op("sub", {period, forth})});
}

// What negative padding leaves of the input; those pads are 0 then. Modes that read elements of the
// input read them from this.
absl::StatusOr<ValueId> CutByPads(NodeView& n, Shape& pads) {
  const Shape shape = n.value(0).shape;
  ValueId x = n.in(0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    Dim &before = pads[axis], &after = pads[axis + shape.size()];
    const Dim first = Dim::Max(Dim(0) - before, 0), end = shape[axis] - Dim::Max(Dim(0) - after, 0);
    before = Dim::Max(before, 0);
    after = Dim::Max(after, 0);
    if (first.IsConst(0) && end == shape[axis]) continue;
    KILN_RETURN_IF_ERROR(
        n.Require(Guard::AtLeast(end - first, 0),
                  absl::StrCat("pads leave ", (end - first).ToString(), " elements of axis ", axis,
                               " of ", shape[axis].ToString())));
    x = n.Op("slice", {x},
             {{"starts", DimsValue({first})},
              {"ends", DimsValue({end})},
              {"axes", Axes{static_cast<int64_t>(axis)}}});
  }
  KILN_RETURN_IF_ERROR(n.status());
  return x;
}

// Padding with elements of the input itself, axis by axis.
absl::Status PadByPlaces(NodeView& n, Shape pads, const std::string& mode) {
  const auto rank = static_cast<size_t>(n.rank(0));
  for (size_t axis = 0; axis < rank; ++axis) {
    if (pads[axis].constant()) continue;
    return absl::UnimplementedError(
        absl::StrCat("pads ", ToString(pads), " depend on the input's extents"));
  }
  KILN_ASSIGN_OR_RETURN(ValueId x, CutByPads(n, pads));
  for (size_t axis = 0; axis < rank; ++axis) {
    const Dim& before = pads[axis];
    const Dim& after = pads[axis + rank];
    if (before.IsConst(0) && after.IsConst(0)) continue;
    const Dim in = ShapeOf(n, x)[axis];
    KILN_RETURN_IF_ERROR(
        n.Require(Guard::AtLeast(in, 1),
                  absl::StrCat("mode ", mode, " needs an element, but axis ", axis, " has none")));
    const auto place = static_cast<int64_t>(axis);
    const ValueId at =
        PaddedPlaces(n, mode, before, in + before + after, ExtentOf(n, x, place, DType::kI64));
    x = n.Op("gather", {x, at}, {{"axis", place}});
    KILN_RETURN_IF_ERROR(n.status());
  }
  return n.Emit("identity", {x});
}

// `fill` takes the place of `value` where it is valid.
absl::Status EmitPad(NodeView& n, const Shape& pads, double value, ValueId fill = {}) {
  const std::string mode = n.Text("mode", "constant");
  if (pads.size() != 2 * static_cast<size_t>(n.rank(0))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pads has ", pads.size(), " elements, expected two for each of ", n.rank(0), " dims"));
  }
  if (mode == "reflect" || mode == "edge" || mode == "wrap") return PadByPlaces(n, pads, mode);
  if (mode != "constant")
    return absl::UnimplementedError(absl::StrCat("mode ", mode, " is not supported"));
  if (fill.valid()) return n.Emit("pad", {n.in(0), {}, fill}, {{"pads", DimsValue(pads)}});
  return n.Emit("pad", {n.in(0)}, {{"pads", DimsValue(pads)}, {"value", value}});
}

absl::Status PadByAttributes(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return EmitPad(n, ToShape(n.Ints("pads")), n.Float("value", 0));
}

absl::Status PadByInputs(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 4));
  KILN_ASSIGN_OR_RETURN(Shape pads, n.Content(1, "pads"));
  double value = 0;
  ValueId fill;
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<double> given, n.ConstFloats(2, "constant_value"));
    if (given.size() != 1)
      return absl::InvalidArgumentError(
          absl::StrCat("constant_value has ", given.size(), " elements, expected 1"));
    value = given[0];
    // An attribute is f32.
    if (!IsFloat(n.value(2).type) || n.value(2).type == DType::kF64) fill = n.in(2);
  }
  if (n.has(3)) {
    KILN_ASSIGN_OR_RETURN(std::vector<int64_t> axes, n.ConstInts(3, "axes"));
    KILN_ASSIGN_OR_RETURN(axes, n.Axes(std::move(axes), n.rank(0)));
    if (pads.size() != 2 * axes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pads has ", pads.size(), " elements, expected two for each of ", axes.size(), " axes"));
    }
    Shape all(2 * static_cast<size_t>(n.rank(0)));
    for (size_t i = 0; i < axes.size(); ++i) {
      all[static_cast<size_t>(axes[i])] = pads[i];
      all[static_cast<size_t>(axes[i] + n.rank(0))] = pads[axes.size() + i];
    }
    pads = std::move(all);
  }
  return EmitPad(n, pads, value, fill);
}

// ---- repetition and blocks, as reshape, expand and transpose

Attrs ShapeAttrs(const Shape& shape) {
  return {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}};
}

absl::Status Tile(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_ASSIGN_OR_RETURN(const Shape repeats, n.Content(1, "repeats"));
  if (repeats.size() != static_cast<size_t>(n.rank(0))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "repeats has ", repeats.size(), " elements, but the input has rank ", n.rank(0)));
  }
  Shape apart, wide, together;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const Dim& extent = n.value(0).shape[i];
    if (!repeats[i].IsConst(1)) {
      apart.push_back(1);
      wide.push_back(repeats[i]);
    }
    apart.push_back(extent);
    wide.push_back(extent);
    together.push_back(repeats[i] * extent);
  }
  if (apart.size() == together.size()) return n.Emit("identity", {n.in(0)});
  const ValueId copies = n.Op("expand", {Reshape(n, n.in(0), apart)}, {{"shape", DimsValue(wide)}});
  return n.Emit("reshape", {copies}, ShapeAttrs(together));
}

struct Image {
  Dim batch, channels, height, width;
  int64_t block;
};

absl::StatusOr<Image> ReadBlocks(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const Shape& s = n.value(0).shape;
  if (s.size() != 4)
    return absl::InvalidArgumentError(absl::StrCat("input has rank ", s.size(), ", expected 4"));
  const int64_t block = n.Int("blocksize", 0);
  if (block < 1 || block > 65536)
    return absl::InvalidArgumentError(
        absl::StrCat("blocksize is ", block, ", expected 1 to 65536"));
  return Image{s[0], s[1], s[2], s[3], block};
}

absl::Status DepthToSpace(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Image x, ReadBlocks(n));
  const std::string mode = n.Text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return absl::InvalidArgumentError(absl::StrCat("mode is \"", mode, "\", expected DCR or CRD"));
  const std::optional<Dim> depth = n.Divided(x.channels, x.block * x.block);
  if (!depth) {
    return absl::InvalidArgumentError(absl::StrCat(
        x.channels.ToString(), " channels are not divisible by the square of ", x.block));
  }
  const bool dcr = mode == "DCR";
  const Shape apart = dcr ? Shape{x.batch, x.block, x.block, *depth, x.height, x.width}
                          : Shape{x.batch, *depth, x.block, x.block, x.height, x.width};
  const std::vector<int64_t> perm =
      dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3};
  const ValueId blocks = n.Op("transpose", {Reshape(n, n.in(0), apart)}, {{"perm", perm}});
  return n.Emit("reshape", {blocks},
                ShapeAttrs({x.batch, *depth, x.height * x.block, x.width * x.block}));
}

absl::Status SpaceToDepth(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Image x, ReadBlocks(n));
  const std::optional<Dim> height = n.Divided(x.height, x.block);
  const std::optional<Dim> width = n.Divided(x.width, x.block);
  if (!height || !width) {
    return absl::InvalidArgumentError(absl::StrCat("extents ", x.height.ToString(), " and ",
                                                   x.width.ToString(), " are not multiples of ",
                                                   x.block));
  }
  const Shape apart = {x.batch, x.channels, *height, x.block, *width, x.block};
  const ValueId blocks = n.Op("transpose", {Reshape(n, n.in(0), apart)},
                              {{"perm", std::vector<int64_t>{0, 3, 5, 1, 2, 4}}});
  return n.Emit("reshape", {blocks},
                ShapeAttrs({x.batch, x.channels * x.block * x.block, *height, *width}));
}

constexpr Converter kShapeRows[] = {
    {"Constant", 6, Constant},
    {"DepthToSpace", 6, DepthToSpace},
    {"Pad", 6, PadByAttributes},
    {"Pad", 11, PadByInputs},
    {"Shape", 6, ShapeOperator},
    {"Slice", 6, Slice},
    {"SpaceToDepth", 6, SpaceToDepth},
    {"Split", 6, Split, "split"},
    {"Tile", 6, Tile},
};

}  // namespace

std::span<const Converter> ShapeConverters() { return kShapeRows; }

}  // namespace kiln::onnx
