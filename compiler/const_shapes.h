// SPDX-License-Identifier: Apache-2.0
// CompileOptions::const_shapes: a model whose inputs always have certain shapes.
//
//   input x : f32 [n, 3, h, w]     {"x", {1, 3, 224, 224}}     input x : f32 [1, 3, 224, 224]
//   input y : f32 [n, 8]                                       input y : f32 [1, 8]
//
// The symbols are numbers wherever they stand, before all passes, so that what depends on them
// (folding, layouts, fusion, schedules) is decided for these numbers.
#ifndef KILN_COMPILER_CONST_SHAPES_H_
#define KILN_COMPILER_CONST_SHAPES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/model.h"

namespace kiln {

// The graph for these shapes; without any, the graph as it is. kInvalidArgument: there is no such
// input, it is named twice, has another rank or extent, or a symbol has two values; errors of
// inference, which name the node.
absl::StatusOr<Graph> WithConstShapes(const Graph& graph, const NamedShapes& shapes);

// Ports of a model that has no graph before its inputs are known. Errors as above.
absl::StatusOr<std::vector<PortInfo>> WithConstShapes(const std::vector<PortInfo>& inputs,
                                                      const NamedShapes& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_CONST_SHAPES_H_
