// SPDX-License-Identifier: Apache-2.0
// The checks of one node against its record; parts of Graph::AddNode and Verify. Errors name the
// node.
#ifndef KILN_GRAPH_CHECK_NODE_H_
#define KILN_GRAPH_CHECK_NODE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "graph/op.h"

namespace kiln {

// `node "conv_3" (conv)`: the subject of errors.
std::string Subject(const Node& node);

// Number of inputs, that they exist, and that none is absent that must be there.
absl::Status CheckInputs(const Graph& graph, const Node& node);

// Attributes: known, of the right kind, and the required ones there.
absl::Status CheckAttrs(const Node& node);

// No tensor of a graph has more elements than this; larger ones are refused where their extents are
// numbers.
inline constexpr int64_t kMaxElements = (int64_t{1} << 40) - 1;
absl::Status CheckElements(const Shape& shape);

// Runs the record's rule; afterwards context.outputs has one entry for each output of the node.
absl::Status InferNode(InferContext& context);

}  // namespace kiln

#endif  // KILN_GRAPH_CHECK_NODE_H_
