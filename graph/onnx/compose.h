// SPDX-License-Identifier: Apache-2.0
// Short names for the nodes that converters compose most. All take invalid ids, which stand for a
// failure that the converter's last call reports, and give one back.
#ifndef KILN_GRAPH_ONNX_COMPOSE_H_
#define KILN_GRAPH_ONNX_COMPOSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/onnx/node_view.h"

namespace kiln::onnx {

using Axes = std::vector<int64_t>;

Shape ShapeOf(const NodeView& n, ValueId x);  // a copy: values move when nodes are added
DType TypeOf(const NodeView& n, ValueId x);
int64_t RankOf(const NodeView& n, ValueId x);

// What `message` says of extents: the model is wrong if all are numbers. Where one is not known,
// others might do, and the node is one that is not supported until the inputs' extents are known.
absl::Status ExtentsError(const Shape& extents, std::string message);

// That an operand, called `what`, has this extent along an axis, or this shape, or broadcasts to
// this shape and not the other way round: known, or assumed from here on; else kInvalidArgument. Of
// two extents that are not known, the rule of the op that joins them says how they broadcast.
absl::Status RequireExtent(NodeView& n, ValueId x, int64_t axis, const Dim& wanted,
                           absl::string_view what);
absl::Status RequireShape(NodeView& n, ValueId x, const Shape& wanted, absl::string_view what);
absl::Status RequireWithin(NodeView& n, ValueId x, const Shape& whole, absl::string_view what);

ValueId Cast(NodeView& n, ValueId x, DType type);  // x itself if it has the type
ValueId Reshape(NodeView& n, ValueId x, const Shape& shape);
ValueId Unsqueeze(NodeView& n, ValueId x, Axes axes);
ValueId Squeeze(NodeView& n, ValueId x, Axes axes);
ValueId Transpose(NodeView& n, ValueId x, Axes perm);
ValueId Expand(NodeView& n, ValueId x, const Shape& shape);
// Elements start, start + step, ... below end (or above it) of an axis.
ValueId Slice(NodeView& n, ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step = 1);
ValueId Reduce(NodeView& n, const char* op, ValueId x, Axes axes, bool keepdims = true);

// The coordinates 0, 1, ... of an axis with `extent` elements, i64, as a tensor of `rank` axes of
// which the others have extent 1.
ValueId Coordinates(NodeView& n, const Dim& extent, int64_t axis, int64_t rank);
// The extent of an axis as a 0-d tensor.
ValueId ExtentOf(NodeView& n, ValueId x, int64_t axis, DType type);

// Axes first, first + 1, ... below end.
Axes AxesFrom(int64_t first, int64_t end);
// [extent at `axis`], or any vector, over `axis` of a tensor of rank `rank`: [1, ..., n, ..., 1].
ValueId OverAxis(NodeView& n, ValueId vector, int64_t axis, int64_t rank);

// An operand of one element as a 0-d tensor; `otherwise` if input k is absent.
ValueId ScalarInput(NodeView& n, int k, DType type, double otherwise);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_COMPOSE_H_
