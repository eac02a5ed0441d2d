// SPDX-License-Identifier: Apache-2.0
// Simplifications that any runtime gains by: what is constant is folded, what is equal is computed
// once, and every operator stays whole.
#ifndef KILN_COMPILER_SIMPLIFY_GRAPH_H_
#define KILN_COMPILER_SIMPLIFY_GRAPH_H_

#include "absl/status/status.h"
#include "graph/graph.h"

namespace kiln {

// The passes of level 2 (`kiln opt --list-passes`) but those that write operators in pieces or for
// a target. Keeps bits as strict math does; ids change.
absl::Status SimplifyGraph(Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_SIMPLIFY_GRAPH_H_
