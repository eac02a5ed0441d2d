// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: results that depend on extents, known symbolically when the model is compiled.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/needed_value.h"
#include "graph/ops/ops.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln::ops {
namespace {

// The axes [first, last) that attributes start and end choose.
struct Axes {
  int64_t first, last;
};
Axes ChosenAxes(const Node& node, int64_t rank) {
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t first = place(IntAttr(node, "start"));
  const int64_t last = HasAttr(node, "end") ? place(IntAttr(node, "end")) : rank;
  return {first, std::max(first, last)};
}

absl::Status InferShape(InferContext& c) {
  const Shape& from = c.shape(0);
  const Axes axes = ChosenAxes(c.node(), static_cast<int64_t>(from.size()));
  c.SetOutput(0, DType::kI64, {axes.last - axes.first});
  c.SetContent(0, Shape(from.begin() + axes.first, from.begin() + axes.last));
  return absl::OkStatus();
}

absl::Status ReferenceShape(const Node& node, std::span<const Tensor> inputs,
                            std::span<Tensor> outputs) {
  const Axes axes = ChosenAxes(node, inputs[0].rank());
  for (int64_t i = axes.first; i < axes.last; ++i)
    WriteInt(outputs[0], i - axes.first, inputs[0].shape()[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

absl::Status InferSize(InferContext& c) {
  c.SetOutput(0, DType::kI64, {});
  c.SetContent(0, {Product(c.shape(0))});
  return absl::OkStatus();
}

absl::Status ReferenceSize(const Node&, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  WriteInt(outputs[0], 0, inputs[0].num_elements());
  return absl::OkStatus();
}

// ---- range
absl::StatusOr<Dim> FloatRange(const InferContext& c) {
  double bound[3];
  for (int k = 0; k < 3; ++k) {
    if (!c.input(k).constant) return NeedsValue(c.input(k));
    bound[k] = ReadFloat(Dense(*c.input(k).constant), 0);
  }
  const double count = std::ceil((bound[1] - bound[0]) / bound[2]);
  if (!(std::abs(count) < 0x1p53))
    return absl::InvalidArgumentError("the number of elements is not finite");
  return Dim(std::max<int64_t>(0, static_cast<int64_t>(count)));
}

absl::StatusOr<Dim> IntRange(InferContext& c) {
  Dim bound[3];
  for (int k = 0; k < 3; ++k) {
    KILN_ASSIGN_OR_RETURN(const Shape content, c.Content(k));
    bound[k] = content[0];
  }
  const Dim& step = bound[2];
  if (step.IsConst(0)) return absl::InvalidArgumentError("the step is 0");
  if (step.IsConst(INT64_MIN)) return Dim::Min(Dim::Max(bound[0] - bound[1], 0), 1);
  const bool forwards = AssumeEither(c, Guard::AtLeast(step, 1), Guard::Less(step, 0));
  const Dim way = forwards ? bound[1] - bound[0] : bound[0] - bound[1];
  // Rounded up; the sum of the two may not fit in 64 bits.
  return Dim::Max((way - 1).FloorDiv(forwards ? step : Dim(0) - step) + 1, 0);
}

absl::Status InferRange(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsNumber, "a float or integer type"));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  for (int k = 0; k < 3; ++k) {  // a list of one counts as a number
    if (c.shape(k) != Shape{1}) KILN_RETURN_IF_ERROR(RequireRank(c, k, 0));
  }
  const bool is_float = IsFloat(c.type(0));
  KILN_ASSIGN_OR_RETURN(const Dim count, is_float ? FloatRange(c) : IntRange(c));
  c.SetOutput(0, c.type(0), {count});
  const auto number = count.constant();
  if (is_float || !number || *number > kMaxContent) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const Shape start, c.Content(0));
  KILN_ASSIGN_OR_RETURN(const Shape step, c.Content(2));
  Shape content;
  for (int64_t i = 0; i < *number; ++i) content.push_back(start[0] + step[0] * i);
  c.SetContent(0, std::move(content));
  return absl::OkStatus();
}

// start + step * coordinate, rounded once.
absl::StatusOr<std::vector<ValueId>> Range(GraphBuilder& b, const Node& node) {
  const Value out = b.value(node.outputs[0]);
  const DType type = ComputeType(out.type);
  const auto to = [&](ValueId x, DType t) { return b.Op("cast", {x}, {{"to", t}}); };
  const ValueId at = to(b.Op("iota", {}, {{"shape", DimsValue(out.shape)}}), type);
  const ValueId way = b.Op("mul", {at, to(node.inputs[2], type)});
  const ValueId y = to(b.Op("add", {way, to(node.inputs[0], type)}), out.type);
  KILN_RETURN_IF_ERROR(b.status());
  return std::vector<ValueId>{y};
}

constexpr AttrSpec kShapeAttrs[] = {
    {"start", AttrKind::kInt, false, 0, nullptr, "the first axis; negative: from the end"},
    {"end", AttrKind::kInt, false, 0, nullptr, "one past the last axis; absent: the rank"}};

constexpr OpDef kHostOps[] = {
    {.name = "shape",
     .doc = "The extents of the input, i64.",
     .kind = OpKind::kHost,
     .attrs = kShapeAttrs,
     .infer = InferShape,
     .reference = ReferenceShape,
     .onnx = {{"Shape"}},
     .witness = "onnx node tests: shape",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "size",
     .doc = "The number of elements of the input, i64.",
     .kind = OpKind::kHost,
     .infer = InferSize,
     .reference = ReferenceSize,
     .onnx = {{"Size"}},
     .witness = "onnx node tests: size",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "range",
     .doc = "start, start + step, ... up to but without limit; inputs start, limit, step.",
     .kind = OpKind::kComposite,
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = InferRange,
     .decompose = Range,
     .onnx = {{"Range", 11}},
     .witness = "onnx node tests: range"},
};

}  // namespace

std::span<const OpDef> HostOps() { return kHostOps; }

}  // namespace kiln::ops
