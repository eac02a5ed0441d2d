// SPDX-License-Identifier: Apache-2.0
// The same program for narrower input shapes: the graph is built again, so that inference sees the
// new extents everywhere.
#ifndef KILN_COMPILER_SPECIALIZE_H_
#define KILN_COMPILER_SPECIALIZE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kiln/base/dim.h"
#include "kiln/graph/graph.h"

namespace kiln {

// A copy of `graph` whose k-th input has shape input_shapes[k]. Fails as an op's inference does,
// naming the node.
absl::StatusOr<Graph> WithInputShapes(const Graph& graph, const std::vector<Shape>& input_shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SPECIALIZE_H_
