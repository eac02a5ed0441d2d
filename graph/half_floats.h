// SPDX-License-Identifier: Apache-2.0
// Floats of 16 bits between operators.
//
//   input x : f32 [n, 4]                       input x : f32 [n, 4]
//   const w : f32 [4, 8] = ...                 const w : f16 [4, 8] = ...
//   y : f32 [n, 8] = matmul(x, w)              h : f16 [n, 4] = cast(x) {to = f16}
//                                              y : f16 [n, 8] = matmul(h, w)
#ifndef KILN_GRAPH_HALF_FLOATS_H_
#define KILN_GRAPH_HALF_FLOATS_H_

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace kiln {

// A copy in which constants and results of f32 are f16, outputs of the graph too; its inputs stay
// as they are. Names are kept. An operator that takes no f16 has casts around it. Of a graph
// without bodies: kUnimplemented names the node that has one.
absl::StatusOr<Graph> WithHalfFloats(const Graph& graph);

}  // namespace kiln

#endif  // KILN_GRAPH_HALF_FLOATS_H_
