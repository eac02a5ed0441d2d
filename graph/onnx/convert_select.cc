// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements: by their order, by indices, by their place in a matrix.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

// ---- order

// Places along `axis` where x is its extreme (or NaN, if there is one): the coordinate there, and
// elsewhere one that loses. Coordinates that are known to fit are i32, of which a vector has twice
// as many.
ValueId Candidates(NodeView& n, ValueId x, int64_t axis, const char* extreme, bool last) {
  const ValueId best = Reduce(n, extreme, x, {axis});
  ValueId hit = n.Op("equal", {x, best});
  if (IsFloat(TypeOf(n, x))) hit = n.Op("or", {hit, n.Op("is_nan", {x})});
  const Shape shape = ShapeOf(n, x);
  if (shape.empty()) return {};
  const Dim& extent = shape[static_cast<size_t>(axis)];
  const bool fits = extent.constant().value_or(INT64_MAX) < INT32_MAX;
  const DType type = fits ? DType::kI32 : DType::kI64;
  const double far = fits ? INT32_MAX : 0x1p62;
  const ValueId at = Cast(n, Coordinates(n, extent, axis, RankOf(n, x)), type);
  return n.Op("where", {hit, at, n.Scalar(type, last ? -1 : far)});
}

absl::Status ArgExtreme(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 0), n.rank(0)));
  KILN_RETURN_IF_ERROR(n.Require(
      Guard::AtLeast(n.value(0).shape[static_cast<size_t>(axis)], 1),
      absl::StrCat("axis ", axis, " has no elements of which one is the ",
                   absl::string_view(n.record()) == "reduce_max" ? "largest" : "smallest")));
  const bool last = n.Int("select_last_index", 0) != 0;
  const ValueId at = Candidates(n, n.in(0), axis, n.record(), last);
  const Attrs over = {{"axes", Axes{axis}}, {"keepdims", n.Int("keepdims", 1)}};
  const ValueId place = n.Op(last ? "reduce_max" : "reduce_min", {at}, over);
  return n.Emit("cast", {place}, {{"to", DType::kI64}});
}

// 1 at the first place of the maximum along an axis, else 0.
ValueId HardmaxOver(NodeView& n, ValueId x, int64_t axis) {
  const ValueId at = Candidates(n, x, axis, "reduce_max", false);
  const ValueId first = Reduce(n, "reduce_min", at, {axis});
  return Cast(n, n.Op("equal", {at, first}), TypeOf(n, x));
}

absl::Status Hardmax(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", -1), n.rank(0)));
  return n.Emit("identity", {HardmaxOver(n, n.in(0), axis)});
}

absl::Status FlatHardmax(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 1), n.rank(0)));
  const ValueId rows = n.Op("flatten", {n.in(0)}, {{"axis", axis}});
  const Attrs back = {{"shape", DimsValue(ShapeOf(n, n.in(0)))}, {"allowzero", int64_t{1}}};
  return n.Emit("reshape", {HardmaxOver(n, rows, 1)}, back);
}

absl::Status TopK(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  n.Ignore("sorted");  // sorted is one of the orders that unsorted allows
  int64_t k = n.Int("k", 0);
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> given, n.ConstInts(1, "K"));
    if (given.size() != 1) return absl::InvalidArgumentError("K must have one element");
    k = given[0];
  }
  return n.Emit("top_k", {n.in(0)},
                {{"k", k}, {"axis", n.Int("axis", -1)}, {"largest", n.Int("largest", 1)}});
}

absl::Status Cumulative(NodeView& n, int64_t product) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axis, n.ConstInts(1, "axis"));
  if (axis.size() != 1) return absl::InvalidArgumentError("axis must have one element");
  return n.Emit("cumulative", {n.in(0)},
                {{"axis", axis[0]},
                 {"product", product},
                 {"exclusive", n.Int("exclusive", 0)},
                 {"reverse", n.Int("reverse", 0)}});
}

absl::Status CumSum(NodeView& n) { return Cumulative(n, 0); }
absl::Status CumProd(NodeView& n) { return Cumulative(n, 1); }

// ---- indices

// The last axis of the indices holds coordinates; each is a tensor of its own.
absl::Status GatherNd(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const Shape shape = n.value(1).shape;
  const std::optional<int64_t> depth = shape.empty() ? std::nullopt : shape.back().constant();
  if (!depth || *depth < 1 || *depth > n.rank(0)) {
    return ExtentsError(shape, absl::StrCat("indices ", ToString(shape), " do not tell places in ",
                                            ToString(n.value(0).shape)));
  }
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  std::vector<ValueId> inputs = {n.in(0)};
  for (int64_t k = 0; k < *depth; ++k)
    inputs.push_back(Squeeze(n, Slice(n, n.in(1), last, k, k + 1), {last}));
  return n.Emit("take", std::move(inputs), {{"batch", n.Int("batch_dims", 0)}});
}

absl::StatusOr<int64_t> Reduction(NodeView& n) {
  const std::string name = n.Text("reduction", "none");
  int64_t number = 0;
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (name == known) return number;
    ++number;
  }
  return absl::InvalidArgumentError(absl::StrCat("reduction \"", name, "\" is not known"));
}

absl::Status ScatterElements(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 3));
  KILN_ASSIGN_OR_RETURN(const int64_t reduction, Reduction(n));
  return n.Emit("scatter_elements", n.inputs(),
                {{"axis", n.Int("axis", 0)}, {"reduction", reduction}});
}

absl::Status ScatterNd(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 3));
  const Shape& places = n.value(1).shape;
  if (!places.empty() && !places.back().constant())
    return ExtentsError(places,
                        absl::StrCat("indices ", ToString(places), " do not tell places in ",
                                     ToString(n.value(0).shape)));
  KILN_ASSIGN_OR_RETURN(const int64_t reduction, Reduction(n));
  return n.Emit("scatter_nd", n.inputs(), {{"reduction", reduction}});
}

absl::Status OneHot(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 3));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> depths, n.ConstFloats(1, "depth"));
  if (depths.size() != 1 || !(depths[0] >= 0 && depths[0] < 0x1p31))
    return absl::InvalidArgumentError("depth must be one number from 0");
  const auto depth = static_cast<int64_t>(depths[0]);
  const int64_t rank = n.rank(0) + 1;
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", -1), rank));
  const ValueId given = Cast(n, n.in(0), DType::kI64);
  const ValueId from_end = n.Op("add", {given, n.Scalar(DType::kI64, static_cast<double>(depth))});
  const ValueId negative = n.Op("less", {given, n.Scalar(DType::kI64, 0)});
  const ValueId at = Unsqueeze(n, n.Op("where", {negative, from_end, given}), {axis});
  const ValueId hit = n.Op("equal", {at, Coordinates(n, depth, axis, rank)});
  const ValueId off = Reshape(n, Slice(n, n.in(2), 0, 0, 1), {});
  const ValueId on = Reshape(n, Slice(n, n.in(2), 0, 1, 2), {});
  return n.Emit("where", {hit, on, off});
}

// Along the time axis, the first `length` elements of every sequence backwards.
absl::Status ReverseSequence(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const int64_t batch_axis = n.Int("batch_axis", 1);
  const int64_t time_axis = n.Int("time_axis", 0);
  if (batch_axis + time_axis != 1 || batch_axis * time_axis != 0 || n.rank(0) < 2)
    return absl::InvalidArgumentError("batch_axis and time_axis must be 0 and 1");
  Axes swap = AxesFrom(0, n.rank(0));
  if (batch_axis == 1) std::swap(swap[0], swap[1]);
  const ValueId x = Transpose(n, n.in(0), swap);
  const Shape shape = ShapeOf(n, x);
  if (shape.empty()) return n.status();
  const ValueId length = Unsqueeze(n, Cast(n, n.in(1), DType::kI64), {1});
  const ValueId time = Coordinates(n, shape[1], 1, 2);
  const ValueId back = n.Op("sub", {n.Op("sub", {length, n.Scalar(DType::kI64, 1)}), time});
  const ValueId at = n.Op("where", {n.Op("less", {time, length}), back, time});
  return n.Emit("transpose", {n.Op("take", {x, at}, {{"batch", int64_t{1}}})}, {{"perm", swap}});
}

// ---- matrices

// Column minus row of every place of the last two axes of `shape`.
ValueId Diagonals(NodeView& n, const Shape& shape) {
  const size_t rank = shape.size();
  return n.Op("sub",
              {Coordinates(n, shape[rank - 1], 1, 2), Coordinates(n, shape[rank - 2], 0, 2)});
}

absl::Status Trilu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  const Shape shape = n.value(0).shape;
  if (shape.size() < 2) return absl::InvalidArgumentError("the input must be a matrix");
  const bool upper = n.Int("upper", 1) != 0;
  const ValueId keep = n.Op(upper ? "greater_equal" : "less_equal",
                            {Diagonals(n, shape), ScalarInput(n, 1, DType::kI64, 0)});
  return n.Emit("where", {keep, n.in(0), n.Scalar(n.value(0).type, 0)});
}

absl::Status EyeLike(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const Shape shape = n.value(0).shape;
  if (shape.size() != 2) return absl::InvalidArgumentError("the input must be a matrix");
  DType type = n.value(0).type;
  if (n.HasAttr("dtype")) {
    KILN_ASSIGN_OR_RETURN(type, ToDType(n.Int("dtype", 1)));
  }
  const ValueId hit = n.Op(
      "equal", {Diagonals(n, shape), n.Scalar(DType::kI64, static_cast<double>(n.Int("k", 0)))});
  return n.Emit("cast", {hit}, {{"to", type}});
}

// Cut or filled with zeros evenly on both sides; the odd element goes to the end.
absl::Status CenterCropPad(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> target, n.ConstInts(1, "shape"));
  const int64_t rank = n.rank(0);
  KILN_ASSIGN_OR_RETURN(const Axes axes, n.Axes(n.Ints("axes", AxesFrom(0, rank)), rank));
  if (axes.size() != target.size())
    return absl::InvalidArgumentError(
        absl::StrCat("shape has ", target.size(), " elements for ", axes.size(), " axes"));
  Axes starts, ends, pads(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& dim = n.value(0).shape[static_cast<size_t>(axes[i])];
    const std::optional<int64_t> extent = dim.constant();
    if (!extent)
      return absl::UnimplementedError(absl::StrCat("along an axis of extent ", dim.ToString()));
    if (target[i] < 0) return absl::InvalidArgumentError("shape has a negative extent");
    const int64_t cut = std::max<int64_t>(*extent - target[i], 0);
    const int64_t fill = std::max<int64_t>(target[i] - *extent, 0);
    starts.push_back(cut / 2);
    ends.push_back(*extent - (cut - cut / 2));
    pads[static_cast<size_t>(axes[i])] = fill / 2;
    pads[static_cast<size_t>(axes[i] + rank)] = fill - fill / 2;
  }
  const ValueId middle =
      n.Op("slice", {n.in(0)}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  return n.Emit("pad", {middle}, {{"pads", pads}});
}

constexpr Converter kSelectRows[] = {
    {"ArgMax", 6, ArgExtreme, "reduce_max"},
    {"ArgMin", 6, ArgExtreme, "reduce_min"},
    {"CenterCropPad", 18, CenterCropPad},
    {"CumProd", 26, CumProd},
    {"CumSum", 11, CumSum},
    {"EyeLike", 9, EyeLike},
    {"GatherND", 11, GatherNd},
    {"Hardmax", 6, FlatHardmax},
    {"Hardmax", 13, Hardmax},
    {"OneHot", 9, OneHot},
    {"ReverseSequence", 10, ReverseSequence},
    {"Scatter", 9, ScatterElements},
    {"ScatterElements", 11, ScatterElements},
    {"ScatterND", 11, ScatterNd},
    {"TopK", 6, TopK},
    {"Trilu", 14, Trilu},
};

}  // namespace

std::span<const Converter> SelectConverters() { return kSelectRows; }

}  // namespace kiln::onnx
