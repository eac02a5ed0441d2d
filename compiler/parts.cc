// SPDX-License-Identifier: Apache-2.0
#include "compiler/parts.h"

#include <utility>

#include "base/status_macros.h"
#include "compiler/segments.h"

namespace kiln {

absl::StatusOr<std::vector<Compiled>> CompileParts(const Graph& graph,
                                                   const CompileOptions& options) {
  std::vector<Compiled> parts;
  if (!HasDynamicNodes(graph)) {
    KILN_ASSIGN_OR_RETURN(parts.emplace_back(), CompileGraph(graph, options));
    return parts;
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Graph> segments, Segments(graph));
  for (const Graph& segment : segments) {
    KILN_ASSIGN_OR_RETURN(parts.emplace_back(), CompileGraph(segment, options));
  }
  return parts;
}

}  // namespace kiln
