// SPDX-License-Identifier: Apache-2.0
// Strided views: values that are other values' memory, seen through strides.
//
// A library operator reads strided operands as they lie, so what only moves elements costs nothing
// in front of it: transposes, slices, and the reshapes between them. Example, the heads of a
// query, q [b, s, 768] -> reshape [b, s, 12, 64] -> transpose [b, 12, s, 64]:
//   base q, offset 0, shape [b, 12, s, 64], strides [768*s, 64, 768, 1]
#ifndef KILN_FUSION_STRIDED_VIEW_H_
#define KILN_FUSION_STRIDED_VIEW_H_

#include <cstddef>
#include <optional>

#include "graph/graph.h"
#include "kiln/dim.h"

namespace kiln {

struct StridedView {
  ValueId base;  // dense; invalid: an absent optional input
  Dim offset = 0;
  Shape shape, strides;  // elements
};

// Strides of dense memory.
Shape RowMajor(const Shape& shape);

// `value` itself, dense.
StridedView DenseView(const Graph& graph, ValueId value);

// The furthest value up through views, transposes and slices in whose memory `value` lies with
// strides; `value` itself if there is none. No element is seen twice.
StridedView StridedOf(const Graph& graph, ValueId value);
// The same, one node up and no further.
StridedView StridedStep(const Graph& graph, ValueId value);

// Strides under which memory of `shape` and `strides` has the shape `to`, if there are any; the
// strides of extent-1 axes mean nothing.
std::optional<Shape> ReshapedStrides(const Shape& shape, const Shape& strides, const Shape& to);

// True if the elements lie without gaps, in row-major order.
bool IsDense(const StridedView& view);

// True if the node is a concat whose parts lie one after the other in memory.
bool IsConcatOfRuns(const Graph& graph, const Node& node);
// True if such a concat needs no kernel, since `in_place` of its `parts` are written where they
// belong: outputs, parts of other concats, and those that are there twice are copied.
bool AreMostInPlace(size_t in_place, size_t parts);

}  // namespace kiln

#endif  // KILN_FUSION_STRIDED_VIEW_H_
