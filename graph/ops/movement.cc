// SPDX-License-Identifier: Apache-2.0
// Ops whose result elements are input elements found by index arithmetic, or a fill value.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"
#include "graph/tensors.h"

namespace kiln::ops {
namespace {

const Shape& ShapeOf(const Graph& graph, const Node& node, size_t input) {
  return graph.value(node.inputs[input]).shape;
}
size_t At(int i) { return static_cast<size_t>(i); }

// A piece that reads `input` at the output's own coordinates.
IndexPiece Straight(int input, size_t rank) {
  IndexPiece piece;
  piece.input = input;
  for (size_t i = 0; i < rank; ++i) piece.axes.push_back({.out_axis = static_cast<int>(i)});
  return piece;
}

IndexMap One(IndexPiece piece) {
  IndexMap map;
  map.pieces.push_back(std::move(piece));
  return map;
}

// ---- transpose
absl::StatusOr<std::vector<int>> Permutation(const Node& node, size_t rank) {
  const std::vector<int64_t> given = IntsAttr(node, "perm");
  std::vector<int> perm(rank);
  if (!HasAttr(node, "perm")) {
    std::iota(perm.rbegin(), perm.rend(), 0);
    return perm;
  }
  std::vector<bool> seen(rank, false);
  bool good = given.size() == rank;
  for (size_t i = 0; good && i < rank; ++i) {
    good = given[i] >= 0 && given[i] < static_cast<int64_t>(rank) &&
           !seen[static_cast<size_t>(given[i])];
    if (!good) break;
    perm[i] = static_cast<int>(given[i]);
    seen[At(perm[i])] = true;
  }
  if (good) return perm;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute \"perm\" is no order of ", rank, " axes"));
}

absl::Status InferTranspose(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int> perm, Permutation(c.node(), c.shape(0).size()));
  Shape shape;
  for (const int axis : perm) shape.push_back(c.shape(0)[At(axis)]);
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexTranspose(const Graph& graph, const Node& node, int) {
  const size_t rank = ShapeOf(graph, node, 0).size();
  KILN_ASSIGN_OR_RETURN(const std::vector<int> perm, Permutation(node, rank));
  IndexPiece piece = Straight(0, rank);
  for (size_t i = 0; i < rank; ++i) piece.axes[At(perm[i])].out_axis = static_cast<int>(i);
  return One(std::move(piece));
}

// ---- expand
absl::Status InferExpand(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(const Shape target, c.Dims("shape"));
  KILN_ASSIGN_OR_RETURN(Shape shape, Broadcast(c, c.shape(0), target));
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexExpand(const Graph& graph, const Node& node, int) {
  const Shape& from = ShapeOf(graph, node, 0);
  const Shape& to = graph.value(node.outputs[0]).shape;
  IndexPiece piece = Straight(0, from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    piece.axes[i].out_axis =
        from[i].IsConst(1) ? -1 : static_cast<int>(to.size() - from.size() + i);
  }
  return One(std::move(piece));
}

// ---- concat
absl::Status InferConcat(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  Shape shape = c.shape(0);
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), shape.size()));
  for (int k = 1; k < c.num_inputs(); ++k) {
    const Shape& next = c.shape(k);
    KILN_RETURN_IF_ERROR(RequireRank(c, k, shape.size()));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == At(axis)) {
        shape[i] = shape[i] + next[i];
      } else {
        KILN_RETURN_IF_ERROR(c.Require(
            shape[i], next[i], absl::StrCat("extents of inputs 0 and ", k, " along axis ", i)));
        if (next[i].constant()) shape[i] = next[i];
      }
    }
  }
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexConcat(const Graph& graph, const Node& node, int) {
  const size_t rank = ShapeOf(graph, node, 0).size();
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), rank));
  IndexMap map;
  Dim lower = 0;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const Dim upper = lower + ShapeOf(graph, node, k)[At(axis)];
    IndexPiece piece = Straight(static_cast<int>(k), rank);
    piece.axes[At(axis)].offset = Dim(0) - lower;
    piece.bounds.push_back({axis, lower, upper});
    map.pieces.push_back(std::move(piece));
    lower = upper;
  }
  return map;
}

// ---- split
// The extent of all parts but the last, where no sizes are given.
int64_t EqualPart(int64_t extent, int64_t parts) { return (extent + parts - 1) / parts; }

// The extents of the parts. Without `split` they are equal; with numbers, the last one may be
// shorter.
absl::StatusOr<Shape> Parts(const Node& node, const Dim& extent, std::optional<Guard>& guard) {
  const auto parts = static_cast<int64_t>(node.outputs.size());
  if (HasAttr(node, "split")) {
    Shape sizes = DimsAttr(node, "split");
    if (sizes.size() == node.outputs.size()) return sizes;
    return absl::InvalidArgumentError(
        absl::StrCat("attribute \"split\" has ", sizes.size(), " sizes for ", parts, " outputs"));
  }
  if (const auto number = extent.constant()) {
    const int64_t chunk = EqualPart(*number, parts);
    Shape sizes(node.outputs.size(), chunk);
    sizes.back() = *number - chunk * (parts - 1);
    if (*number - chunk * (parts - 1) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("an extent of ", *number, " cannot be split into ", parts, " parts"));
    }
    return sizes;
  }
  guard = Guard::Divisible(extent, parts);
  return Shape(node.outputs.size(), extent.FloorDiv(parts));
}

// Where a part begins. A node may have very many: sizes that are numbers are added as such.
absl::StatusOr<Dim> PartStart(const Node& node, const Dim& extent, int output) {
  if (const auto sizes = node.attrs.find("split"); sizes != node.attrs.end()) {
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&sizes->second)) {
      if (numbers->size() == node.outputs.size()) {
        uint64_t start = 0;
        for (int k = 0; k < output; ++k) start += static_cast<uint64_t>((*numbers)[At(k)]);
        return Dim(static_cast<int64_t>(start));
      }
    }
  } else if (const auto number = extent.constant()) {
    return Dim(EqualPart(*number, static_cast<int64_t>(node.outputs.size())) * output);
  }
  std::optional<Guard> guard;
  KILN_ASSIGN_OR_RETURN(const Shape parts, Parts(node, extent, guard));
  Dim start = 0;
  for (int k = 0; k < output; ++k) start = start + parts[At(k)];
  return start;
}

absl::Status InferSplit(InferContext& c) {
  const Shape& from = c.shape(0);
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), from.size()));
  if (c.has_dims("split")) KILN_RETURN_IF_ERROR(c.Dims("split").status());
  std::optional<Guard> guard;
  KILN_ASSIGN_OR_RETURN(const Shape parts, Parts(c.node(), from[At(axis)], guard));
  if (guard) c.Assume(*guard);
  Dim sum = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    sum = sum + parts[k];
    Shape shape = from;
    shape[At(axis)] = parts[k];
    c.SetOutput(static_cast<int>(k), c.type(0), std::move(shape));
  }
  return guard ? absl::OkStatus()
               : c.Require(sum, from[At(axis)], "sum of the parts and the extent");
}

absl::StatusOr<IndexMap> IndexSplit(const Graph& graph, const Node& node, int output) {
  const Shape& from = ShapeOf(graph, node, 0);
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), from.size()));
  IndexPiece piece = Straight(0, from.size());
  KILN_ASSIGN_OR_RETURN(piece.axes[At(axis)].offset, PartStart(node, from[At(axis)], output));
  return One(std::move(piece));
}

// ---- gather
absl::Status InferGather(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 1, IsInt, "integers as indices"));
  const Shape& from = c.shape(0);
  const Shape& indices = c.shape(1);
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), from.size()));
  AssumeKnownIfEmpty(c, from[At(axis)]);
  Shape shape(from.begin(), from.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), from.begin() + axis + 1, from.end());
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexGather(const Graph& graph, const Node& node, int) {
  const size_t rank = ShapeOf(graph, node, 0).size();
  const auto load_rank = static_cast<int>(ShapeOf(graph, node, 1).size());
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), rank));
  if (ShapeOf(graph, node, 0)[At(axis)].IsConst(0)) return IndexMap();
  IndexPiece piece = Straight(0, rank);
  for (size_t i = At(axis) + 1; i < rank; ++i) piece.axes[i].out_axis += load_rank - 1;
  IndexAxis& loaded = piece.axes[At(axis)];
  loaded.out_axis = -1;
  loaded.load_input = 1;
  for (int i = 0; i < load_rank; ++i) loaded.load_axes.push_back(axis + i);
  return One(std::move(piece));
}

// ---- pad
struct Padding {
  std::vector<Dim> before, after;
};

absl::StatusOr<Padding> PaddingOf(const Node& node, size_t rank, const Shape& pads) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (HasAttr(node, "axes")) {
    KILN_ASSIGN_OR_RETURN(axes, Numbers(DimsAttr(node, "axes"), "axes"));
  }
  if (pads.size() != 2 * axes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", pads.size(), " pads for ", axes.size(),
                                                   " axes; expected ", 2 * axes.size(),
                                                   ": those before all axes, then those behind"));
  }
  Padding padding{std::vector<Dim>(rank), std::vector<Dim>(rank)};
  for (size_t i = 0; i < axes.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(axes[i], rank));
    padding.before[At(axis)] = pads[i];
    padding.after[At(axis)] = pads[i + axes.size()];
  }
  return padding;
}

absl::Status InferPad(InferContext& c) {
  if (const std::string mode = StringAttr(c.node(), "mode"); mode != "constant") {
    return absl::UnimplementedError(
        absl::StrCat("mode \"", mode, "\" is not supported; only \"constant\" is"));
  }
  KILN_ASSIGN_OR_RETURN(const Shape pads, c.Dims("pads"));
  if (c.has_dims("axes")) KILN_RETURN_IF_ERROR(c.Dims("axes").status());
  if (c.has_input(2)) {
    if (!c.input(2).constant || c.input(2).constant->num_elements() != 1)
      return absl::UnimplementedError("the fill value must be a constant of one element");
    if (c.type(2) != c.type(0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the fill value is ", Name(c.type(2)), ", but the input ", Name(c.type(0))));
    }
  }
  KILN_ASSIGN_OR_RETURN(const Padding padding, PaddingOf(c.node(), c.shape(0).size(), pads));
  Shape shape = c.shape(0);
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = shape[i] + padding.before[i] + padding.after[i];
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

// `value` rounded to `type`, as IndexMap holds a fill value.
uint64_t FillBits(double value, DType type) {
  return ConstBits(ComputeType(type), IsFloat(type) ? RoundTo(value, type) : value);
}

// The one element of `tensor`; integers have more bits than a double.
uint64_t FillBits(const Tensor& tensor, DType type) {
  const Tensor dense = Dense(tensor);
  if (IsFloat(type) || dense.dtype() != type) return FillBits(ReadFloat(dense, 0), type);
  return static_cast<uint64_t>(ReadInt(dense, 0));
}

absl::StatusOr<IndexMap> IndexPad(const Graph& graph, const Node& node, int) {
  const Shape& from = ShapeOf(graph, node, 0);
  KILN_ASSIGN_OR_RETURN(const Padding padding,
                        PaddingOf(node, from.size(), DimsAttr(node, "pads")));
  IndexPiece piece = Straight(0, from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (padding.before[i].IsConst(0) && padding.after[i].IsConst(0)) continue;
    piece.axes[i].offset = Dim(0) - padding.before[i];
    piece.bounds.push_back({static_cast<int>(i), padding.before[i], padding.before[i] + from[i]});
  }
  IndexMap map = One(std::move(piece));
  const DType type = graph.value(node.inputs[0]).type;
  map.fill = FillBits(FloatAttr(node, "value"), type);
  if (node.inputs.size() > 2 && node.inputs[2].valid())
    map.fill = FillBits(*graph.value(node.inputs[2]).constant, type);
  return map;
}

// ---- upsample
absl::Status InferUpsample(InferContext& c) {
  const std::vector<int64_t> scales = IntsAttr(c.node(), "scales");
  Shape shape = c.shape(0);
  if (scales.size() != shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", scales.size(), " scales for ", ToString(shape)));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (scales[i] < 1)
      return absl::InvalidArgumentError(absl::StrCat("the scale of axis ", i, " is ", scales[i]));
    shape[i] = shape[i] * scales[i];
  }
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexUpsample(const Graph& graph, const Node& node, int) {
  const std::vector<int64_t> scales = IntsAttr(node, "scales");
  IndexPiece piece = Straight(0, ShapeOf(graph, node, 0).size());
  for (size_t i = 0; i < piece.axes.size(); ++i) piece.axes[i].div = scales[i];
  return One(std::move(piece));
}

// ---- constant_of_shape
absl::Status InferConstantOfShape(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(Shape shape, c.Dims("shape"));
  DType type = DType::kF32;
  if (const auto value = c.node().attrs.find("value"); value != c.node().attrs.end()) {
    const Tensor& tensor = std::get<Tensor>(value->second);
    if (tensor.num_elements() != 1)
      return absl::InvalidArgumentError("attribute \"value\" must have one element");
    type = tensor.dtype();
  }
  c.SetOutput(0, type, std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexConstantOfShape(const Graph&, const Node& node, int) {
  IndexMap map;
  if (const auto value = node.attrs.find("value"); value != node.attrs.end()) {
    const Tensor& tensor = std::get<Tensor>(value->second);
    map.fill = FillBits(tensor, tensor.dtype());
  }
  return map;
}

constexpr AttrSpec kTransposeAttrs[] = {
    {"perm", AttrKind::kInts, false, 0, nullptr,
     "axis i of the result is axis perm[i] of the input; absent: reversed"}};
constexpr AttrSpec kExpandAttrs[] = {{"shape", AttrKind::kDims, false, 0, nullptr,
                                      "broadcast with the input's shape it gives the result's", 1}};
constexpr AttrSpec kConcatAttrs[] = {
    {"axis", AttrKind::kInt, true, 0, nullptr, "the axis along which inputs follow each other"}};
constexpr AttrSpec kSplitAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "the axis that is split"},
    {"split", AttrKind::kDims, false, 0, nullptr,
     "the extents of the parts; absent: equal ones, the last may be shorter", 1}};
constexpr AttrSpec kGatherAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "the axis whose coordinate is looked up"}};
constexpr AttrSpec kPadAttrs[] = {
    {"pads", AttrKind::kDims, false, 0, nullptr,
     "elements to add before each axis, then after each; negative ones cut", 1},
    {"axes", AttrKind::kDims, false, 0, nullptr, "the axes `pads` is about; absent: all", 3},
    {"mode", AttrKind::kString, false, 0, "constant", "what to add: \"constant\", the fill value"},
    {"value", AttrKind::kFloat, false, 0, nullptr, "the fill value, unless input 2 gives it"}};
constexpr AttrSpec kUpsampleAttrs[] = {{"scales", AttrKind::kInts, true, 0, nullptr,
                                        "for each axis, how often an element is repeated"}};
constexpr AttrSpec kFillAttrs[] = {
    {"shape", AttrKind::kDims, false, 0, nullptr, "the shape of the result", 0},
    {"value", AttrKind::kTensor, false, 0, nullptr,
     "one element: the value, and the type; absent: f32 0"}};

constexpr OpDef kMovementOps[] = {
    {.name = "transpose",
     .doc = "The axes in another order.",
     .kind = OpKind::kIndex,
     .attrs = kTransposeAttrs,
     .infer = InferTranspose,
     .index = IndexTranspose,
     .onnx = {{"Transpose"}},
     .witness = "onnx node tests: transpose"},
    {.name = "expand",
     .doc = "Repeats along axes of extent 1, as broadcasting does.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kExpandAttrs,
     .infer = InferExpand,
     .index = IndexExpand,
     .onnx = {{"Expand", 8}},
     .witness = "onnx node tests: expand"},
    {.name = "concat",
     .doc = "The inputs one after the other along an axis.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = -1,
     .attrs = kConcatAttrs,
     .infer = InferConcat,
     .index = IndexConcat,
     .onnx = {{"Concat"}},
     .witness = "onnx node tests: concat"},
    {.name = "split",
     .doc = "Consecutive parts along an axis; the inverse of concat.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 2,
     .num_outputs = -1,
     .attrs = kSplitAttrs,
     .infer = InferSplit,
     .index = IndexSplit,
     .onnx_converted = "Split",
     .witness = "onnx node tests: split",
     .gradient = {.rule = gradient::Split}},
    {.name = "gather",
     .doc = "Elements of input 0 whose coordinate along `axis` input 1 gives; "
            "negative ones count from the end; clamped.",
     .kind = OpKind::kIndex,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kGatherAttrs,
     .infer = InferGather,
     .index = IndexGather,
     .onnx = {{"Gather"}},
     .witness = "onnx node tests: gather",
     .index_inputs = {1, 1}},
    {.name = "pad",
     .doc = "Surrounds the input with a fill value.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 4,
     .attrs = kPadAttrs,
     .infer = InferPad,
     .index = IndexPad,
     .onnx_converted = "Pad",
     .witness = "onnx node tests: constant_pad",
     .constant_input = 2},
    {.name = "upsample",
     .doc = "Repeats every element: element i of an axis is element i / scale.",
     .kind = OpKind::kIndex,
     .attrs = kUpsampleAttrs,
     .infer = InferUpsample,
     .index = IndexUpsample,
     .onnx_converted = "Resize Upsample",
     .witness = "onnx node tests: upsample_nearest"},
    {.name = "constant_of_shape",
     .doc = "One value everywhere.",
     .kind = OpKind::kIndex,
     .min_inputs = 0,
     .max_inputs = 1,
     .attrs = kFillAttrs,
     .infer = InferConstantOfShape,
     .index = IndexConstantOfShape,
     .onnx = {{"ConstantOfShape", 9}},
     .witness = "onnx node tests: constantofshape"},
};

}  // namespace

std::span<const OpDef> MovementOps() { return kMovementOps; }

}  // namespace kiln::ops
