// SPDX-License-Identifier: Apache-2.0
// What a model says of its outputs before a run: what holds whatever variant runs.
//
// Example: slice of x [n] from -3 to -2 in steps of -2 has no elements where n >= 3, which the
// first variant assumes, and one where n is 1. Its port is [z_dim0], not [0].
#ifndef KILN_COMPILER_OUTPUT_PORTS_H_
#define KILN_COMPILER_OUTPUT_PORTS_H_

#include <vector>

#include "exec/provider.h"
#include "graph/graph.h"

namespace kiln {

// The outputs of `graph`. An extent that is a number in the graph, but perhaps only under the
// graph's guards, is a symbol of its own. All extents of a node that needs a guard count as such,
// but for the axes of an elementwise node that are numbers in all operands. Extents with symbols
// stay as the graph has them.
std::vector<PortInfo> OutputPorts(const Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_OUTPUT_PORTS_H_
