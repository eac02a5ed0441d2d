// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/nodes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

int64_t Axis(size_t axis) { return static_cast<int64_t>(axis); }

bool AllAre(const Shape& shape, int64_t value) {
  return std::all_of(shape.begin(), shape.end(), [&](const Dim& d) { return d.IsConst(value); });
}

}  // namespace

absl::StatusOr<Ids> Nodes::Give(Ids values) const {
  KILN_RETURN_IF_ERROR(b_.status());
  return values;
}

DType Nodes::TypeOf(ValueId x) const { return ok() && x.valid() ? b_.type(x) : DType::kF32; }
Shape Nodes::ShapeOf(ValueId x) const { return ok() && x.valid() ? b_.shape(x) : Shape(); }

ValueId Nodes::Op(absl::string_view op, Ids inputs, Attrs attrs) {
  return b_.Op(op, std::move(inputs), std::move(attrs));
}

ValueId Nodes::To(ValueId x, DType type) {
  return !x.valid() || TypeOf(x) == type ? x : Op("cast", {x}, {{"to", type}});
}

ValueId Nodes::Number(DType type, double value) { return b_.Scalar(type, value); }

ValueId Nodes::Filled(DType type, const Shape& shape, double value) {
  if (shape.empty()) return Number(type, value);
  return Op("constant_of_shape", {},
            {{"shape", DimsValue(shape)}, {"value", FilledTensor(type, {}, value)}});
}

ValueId Nodes::Iota(const Shape& shape, size_t axis) {
  return Op("iota", {}, {{"shape", DimsValue(shape)}, {"axis", Axis(axis)}});
}

ValueId Nodes::Extent(ValueId x, size_t axis, DType type) {
  const Shape shape = ShapeOf(x);
  if (axis >= shape.size()) return {};
  if (const auto number = shape[axis].constant()) return Number(type, static_cast<double>(*number));
  return To(Op("shape", {x}, {{"start", Axis(axis)}, {"end", Axis(axis) + 1}}), type);
}

ValueId Nodes::Reshape(ValueId x, const Shape& shape) {
  if (ShapeOf(x) == shape) return x;
  return Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
}

ValueId Nodes::Unsqueeze(ValueId x, const Ints& axes) {
  return axes.empty() ? x : Op("unsqueeze", {x}, {{"axes", axes}});
}

ValueId Nodes::Transpose(ValueId x, const Ints& perm) {
  return std::is_sorted(perm.begin(), perm.end()) ? x : Op("transpose", {x}, {{"perm", perm}});
}

ValueId Nodes::SwapLast(ValueId x) {
  Ints perm(RankOf(x));
  std::iota(perm.begin(), perm.end(), 0);
  if (perm.size() >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return Transpose(x, perm);
}

ValueId Nodes::Expand(ValueId x, const Shape& shape) {
  return ShapeOf(x) == shape ? x : Op("expand", {x}, {{"shape", DimsValue(shape)}});
}

ValueId Nodes::Slice(ValueId x, size_t axis, const Dim& start, const Dim& end, int64_t step) {
  const Shape shape = ShapeOf(x);
  if (axis < shape.size() && start.IsConst(0) && end == shape[axis] && step == 1) return x;
  return Op("slice", {x},
            {{"starts", DimsValue({start})},
             {"ends", DimsValue({end})},
             {"axes", Ints{Axis(axis)}},
             {"steps", Ints{step}}});
}

ValueId Nodes::Backwards(ValueId x, size_t axis) {
  return Slice(x, axis, -1, std::numeric_limits<int64_t>::min(), -1);
}

ValueId Nodes::Pad(ValueId x, const Shape& before, const Shape& after, double value) {
  if (AllAre(before, 0) && AllAre(after, 0)) return x;
  Shape pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  return Op("pad", {x}, {{"pads", DimsValue(pads)}, {"value", value}});
}

ValueId Nodes::Spread(ValueId x, size_t axis, int64_t step) {
  Shape shape = ShapeOf(x);
  if (step == 1 || axis >= shape.size()) return x;
  // An axis of one element behind this one, padded, becomes part of it.
  Shape before(shape.size() + 1, 0), after(shape.size() + 1, 0);
  after[axis + 1] = step - 1;
  const ValueId apart = Pad(Unsqueeze(x, {Axis(axis) + 1}), before, after);
  shape[axis] = shape[axis] * step;
  return Reshape(apart, shape);
}

ValueId Nodes::Sum(ValueId x, const Ints& axes, bool keep) {
  if (axes.empty()) return x;  // an empty list would be all
  return Op("reduce_sum", {x}, {{"axes", axes}, {"keepdims", int64_t{keep ? 1 : 0}}});
}

ValueId Nodes::SumTo(ValueId x, const Shape& shape) {
  const Shape from = ShapeOf(x);
  if (!ok() || from.size() < shape.size()) return x;
  const size_t more = from.size() - shape.size();
  Ints leading(more), summed(more);
  std::iota(leading.begin(), leading.end(), 0);
  std::iota(summed.begin(), summed.end(), 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].IsConst(1) && !from[more + i].IsConst(1)) summed.push_back(Axis(more + i));
  }
  if (summed.size() == more) return Sum(x, leading);
  // One sum, which is one kernel with others over these axes.
  const ValueId sum = Sum(x, summed, true);
  return more == 0 ? sum : Op("squeeze", {sum}, {{"axes", leading}});
}

}  // namespace kiln::gradient
