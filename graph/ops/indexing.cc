// SPDX-License-Identifier: Apache-2.0
// Index ops whose coordinates come from other tensors, and the coordinate itself as a value.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/coordinate.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

IndexMap One(IndexPiece piece) {
  IndexMap map;
  map.pieces.push_back(std::move(piece));
  return map;
}

// The whole of a tensor of rank `rank`, whose axes are those of the output, as a coordinate.
IndexAxis Loaded(int input, size_t rank) {
  IndexAxis axis;
  axis.load_input = input;
  for (size_t i = 0; i < rank; ++i) axis.load_axes.push_back(static_cast<int>(i));
  return axis;
}

// ---- iota
absl::Status InferIota(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(Shape shape, c.Dims("shape"));
  KILN_RETURN_IF_ERROR(NormalAxis(IntAttr(c.node(), "axis"), shape.size()).status());
  c.SetOutput(0, DType::kI64, std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexIota(const Graph& graph, const Node& node, int) {
  const size_t rank = graph.value(node.outputs[0]).shape.size();
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), rank));
  IndexPiece piece;
  piece.input = kCoordinate;
  piece.axes.push_back({.out_axis = axis});
  return One(std::move(piece));
}

// ---- gather_elements
absl::Status InferGatherElements(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 1, IsInt, "integers as indices"));
  const size_t rank = c.shape(0).size();
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, rank));
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), rank));
  AssumeKnownIfEmpty(c, c.shape(0)[At(axis)]);
  for (size_t i = 0; i < rank; ++i) {
    if (i == At(axis)) continue;
    const Dim &has = c.shape(0)[i], &wanted = c.shape(1)[i];
    const Guard inside = Guard::AtLeast(has - wanted, 0);
    if (inside.Static() == false) {
      return absl::InvalidArgumentError(absl::StrCat("the indices have the extent ",
                                                     wanted.ToString(), " along axis ", i,
                                                     ", the input ", has.ToString()));
    }
    c.Assume(inside);
  }
  c.SetOutput(0, c.type(0), c.shape(1));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexGatherElements(const Graph& graph, const Node& node, int) {
  const Shape& from = graph.value(node.inputs[0]).shape;
  const size_t rank = from.size();
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), rank));
  if (from[At(axis)].IsConst(0)) return IndexMap();
  IndexPiece piece;
  for (size_t i = 0; i < rank; ++i) {
    piece.axes.push_back(i == At(axis) ? Loaded(1, rank)
                                       : IndexAxis{.out_axis = static_cast<int>(i)});
  }
  return One(std::move(piece));
}

// ---- take
absl::Status InferTake(InferContext& c) {
  const Shape& from = c.shape(0);
  const Shape& index = c.shape(1);
  const int64_t batch = IntAttr(c.node(), "batch");
  const int64_t looked_up = c.num_inputs() - 1;
  if (batch < 0 || batch > static_cast<int64_t>(index.size()) ||
      batch + looked_up > static_cast<int64_t>(from.size())) {
    return absl::InvalidArgumentError(absl::StrCat(batch, " batch axes and ", looked_up,
                                                   " looked-up ones do not fit ", ToString(from),
                                                   " and ", ToString(index)));
  }
  for (int k = 1; k < c.num_inputs(); ++k) {
    KILN_RETURN_IF_ERROR(RequireType(c, k, IsInt, "integers as indices"));
    KILN_RETURN_IF_ERROR(RequireRank(c, k, index.size()));
    for (size_t i = 0; i < index.size(); ++i) {
      KILN_RETURN_IF_ERROR(c.Require(index[i], c.shape(k)[i], "extents of the indices"));
    }
  }
  for (size_t i = 0; i < At(batch); ++i)
    KILN_RETURN_IF_ERROR(c.Require(from[i], index[i], "extents of a batch axis"));
  for (int64_t i = batch; i < batch + looked_up; ++i) AssumeKnownIfEmpty(c, from[At(i)]);
  Shape shape = index;
  shape.insert(shape.end(), from.begin() + batch + looked_up, from.end());
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexTake(const Graph& graph, const Node& node, int) {
  const Shape& from = graph.value(node.inputs[0]).shape;
  const size_t rank = from.size();
  const size_t index_rank = graph.value(node.inputs[1]).shape.size();
  const size_t batch = At(IntAttr(node, "batch"));
  const size_t looked_up = node.inputs.size() - 1;
  IndexPiece piece;
  for (size_t i = 0; i < rank; ++i) {
    if (i >= batch && i < batch + looked_up && from[i].IsConst(0)) return IndexMap();
    if (i < batch) {
      piece.axes.push_back({.out_axis = static_cast<int>(i)});
    } else if (i < batch + looked_up) {
      piece.axes.push_back(Loaded(static_cast<int>(i - batch) + 1, index_rank));
    } else {
      piece.axes.push_back({.out_axis = static_cast<int>(i - batch - looked_up + index_rank)});
    }
  }
  return One(std::move(piece));
}

constexpr AttrSpec kIotaAttrs[] = {
    {"shape", AttrKind::kDims, false, 0, nullptr, "the shape of the result", 0},
    {"axis", AttrKind::kInt, false, 0, nullptr, "the axis whose coordinate is the value"}};
constexpr AttrSpec kAxisAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "the axis whose coordinate is looked up"}};
constexpr AttrSpec kTakeAttrs[] = {
    {"batch", AttrKind::kInt, false, 0, nullptr,
     "the first axes of the input that are also those of the indices"}};

constexpr OpDef kIndexingOps[] = {
    {.name = "iota",
     .doc = "Every element is its own coordinate along an axis, i64.",
     .kind = OpKind::kIndex,
     .min_inputs = 0,
     .max_inputs = 1,
     .attrs = kIotaAttrs,
     .infer = InferIota,
     .index = IndexIota,
     .witness = "C++ std::iota",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "gather_elements",
     .doc =
         "Element o is the input's at o, but for its coordinate along `axis`, which input 1 has at "
         "o; negative ones count from the end; clamped.",
     .kind = OpKind::kIndex,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kAxisAttrs,
     .infer = InferGatherElements,
     .index = IndexGatherElements,
     .onnx = {{"GatherElements", 11}},
     .witness = "onnx node tests: gather_elements",
     .index_inputs = {1, 1}},
    {.name = "take",
     .doc = "Slices of input 0 at coordinates that the other inputs, all of one "
            "shape, give for its first axes behind `batch`; clamped.",
     .kind = OpKind::kIndex,
     .min_inputs = 2,
     .max_inputs = -1,
     .attrs = kTakeAttrs,
     .infer = InferTake,
     .index = IndexTake,
     .onnx_converted = "GatherND",
     .witness = "onnx node tests: gathernd",
     .index_inputs = {1}},
};

}  // namespace

std::span<const OpDef> IndexingOps() { return kIndexingOps; }

}  // namespace kiln::ops
