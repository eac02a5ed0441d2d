// SPDX-License-Identifier: Apache-2.0
// What compilation makes of all of a graph, for those who look: with branches, loops or
// data-dependent sizes it is several programs (segments.h).
#ifndef KILN_COMPILER_PARTS_H_
#define KILN_COMPILER_PARTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/machine_of.h"
#include "compiler/variants.h"
#include "graph/graph.h"

namespace kiln {

// One for each segment, in the order in which they stand; a graph without dynamic nodes is one.
// The name of its graph says which segment it is. Errors as CompileGraph.
absl::StatusOr<std::vector<Compiled>> CompileParts(const Graph& graph,
                                                   const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_PARTS_H_
