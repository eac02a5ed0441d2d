// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/compose.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/importer.h"
#include "graph/op.h"
#include "graph/open_extents.h"

namespace kiln::onnx {

Shape ShapeOf(const NodeView& n, ValueId x) { return n.value(x).shape; }
DType TypeOf(const NodeView& n, ValueId x) { return n.value(x).type; }
int64_t RankOf(const NodeView& n, ValueId x) {
  return static_cast<int64_t>(n.value(x).shape.size());
}

absl::Status ExtentsError(const Shape& extents, std::string message) {
  if (kiln::Constant(extents)) return absl::InvalidArgumentError(message);
  return OpenExtentsError(std::move(message));
}

absl::Status RequireExtent(NodeView& n, ValueId x, int64_t axis, const Dim& wanted,
                           absl::string_view what) {
  if (!x.valid()) return n.status();
  const Shape shape = ShapeOf(n, x);
  if (axis < 0 || axis >= std::ssize(shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has the shape ", ToString(shape), ", with no axis ", axis));
  }
  const Dim& own = shape[static_cast<size_t>(axis)];
  return n.Require(Guard::Same(own, wanted),
                   absl::StrCat(what, " has ", own.ToString(), " elements along axis ", axis,
                                ", expected ", wanted.ToString()));
}

absl::Status RequireShape(NodeView& n, ValueId x, const Shape& wanted, absl::string_view what) {
  if (!x.valid()) return n.status();
  const Shape shape = ShapeOf(n, x);
  if (shape.size() != wanted.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has the shape ", ToString(shape), ", expected ", ToString(wanted)));
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    KILN_RETURN_IF_ERROR(RequireExtent(n, x, static_cast<int64_t>(i), wanted[i], what));
  return absl::OkStatus();
}

absl::Status RequireWithin(NodeView& n, ValueId x, const Shape& whole, absl::string_view what) {
  if (!x.valid()) return n.status();
  const Shape shape = ShapeOf(n, x);
  const std::string why =
      absl::StrCat(what, " ", ToString(shape), " does not broadcast to ", ToString(whole));
  if (shape.size() > whole.size()) return absl::InvalidArgumentError(why);
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim &own = shape[i], &other = whole[whole.size() - shape.size() + i];
    if (own.IsConst(1) || own == other) continue;
    if (!own.constant() && !other.IsConst(1)) continue;
    KILN_RETURN_IF_ERROR(n.Require(Guard::Same(own, other), why));
  }
  return absl::OkStatus();
}

ValueId Cast(NodeView& n, ValueId x, DType type) {
  return x.valid() && TypeOf(n, x) != type ? n.Op("cast", {x}, {{"to", type}}) : x;
}

ValueId Reshape(NodeView& n, ValueId x, const Shape& shape) {
  return n.Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
}

ValueId Unsqueeze(NodeView& n, ValueId x, Axes axes) {
  return axes.empty() ? x : n.Op("unsqueeze", {x}, {{"axes", std::move(axes)}});
}

ValueId Squeeze(NodeView& n, ValueId x, Axes axes) {
  return axes.empty() ? x : n.Op("squeeze", {x}, {{"axes", std::move(axes)}});
}

ValueId Transpose(NodeView& n, ValueId x, Axes perm) {
  return n.Op("transpose", {x}, {{"perm", std::move(perm)}});
}

ValueId Expand(NodeView& n, ValueId x, const Shape& shape) {
  return n.Op("expand", {x}, {{"shape", DimsValue(shape)}});
}

ValueId Slice(NodeView& n, ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  return n.Op(
      "slice", {x},
      {{"starts", Axes{start}}, {"ends", Axes{end}}, {"axes", Axes{axis}}, {"steps", Axes{step}}});
}

ValueId Reduce(NodeView& n, const char* op, ValueId x, Axes axes, bool keepdims) {
  return n.Op(op, {x}, {{"axes", std::move(axes)}, {"keepdims", int64_t{keepdims}}});
}

ValueId Coordinates(NodeView& n, const Dim& extent, int64_t axis, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = extent;
  return n.Op("iota", {}, {{"shape", DimsValue(shape)}, {"axis", axis}});
}

ValueId ExtentOf(NodeView& n, ValueId x, int64_t axis, DType type) {
  if (!x.valid()) return x;
  const Dim extent = ShapeOf(n, x)[static_cast<size_t>(axis)];
  if (const auto number = extent.constant()) return n.Scalar(type, static_cast<double>(*number));
  const ValueId one = n.Op("shape", {x}, {{"start", axis}, {"end", axis + 1}});
  return Cast(n, Reshape(n, one, {}), type);
}

Axes AxesFrom(int64_t first, int64_t end) {
  Axes axes;
  for (int64_t axis = first; axis < end; ++axis) axes.push_back(axis);
  return axes;
}

ValueId OverAxis(NodeView& n, ValueId vector, int64_t axis, int64_t rank) {
  Axes axes;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) axes.push_back(i);
  }
  return Unsqueeze(n, vector, std::move(axes));
}

ValueId ScalarInput(NodeView& n, int k, DType type, double otherwise) {
  return n.has(k) ? Cast(n, Reshape(n, n.in(k), {}), type) : n.Scalar(type, otherwise);
}

}  // namespace kiln::onnx
