// SPDX-License-Identifier: Apache-2.0
// Nodes that several families' decompositions make. After an error of the builder they do nothing.
#ifndef KILN_GRAPH_OPS_NODES_H_
#define KILN_GRAPH_OPS_NODES_H_

#include <cstddef>

#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln::ops {

// `x` as `type`, if it is valid and not of that type.
ValueId To(GraphBuilder& b, ValueId x, DType type);

// A vector over the channels, which are axis 1 of values of this rank, as [C, 1, 1, ...].
ValueId OverChannels(GraphBuilder& b, ValueId v, size_t rank);

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_NODES_H_
