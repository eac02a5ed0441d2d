// SPDX-License-Identifier: Apache-2.0
// A graph with dynamic nodes (OpDef::dynamic) becomes a script: its other nodes fall into segments,
// each a graph without such nodes, that is compiled like any model.
//
//   level 0   what needs no dynamic node           one segment, then the dynamic nodes of level 0
//   level 1   what needs only those                one segment, then the dynamic nodes of level 1
//   ...
// A node also waits for the symbols in its extents: a dynamic node that has found out an extent
// `k` is waited for by all whose shapes say `k`. Branches and loop bodies are callees of their own,
// and may be scripts in turn.
#ifndef KILN_COMPILER_SEGMENTS_H_
#define KILN_COMPILER_SEGMENTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/provider.h"
#include "exec/script.h"
#include "graph/graph.h"

namespace kiln {

bool HasDynamicNodes(const Graph& graph);

// Makes the provider of one callee.
using MakeProvider = std::function<absl::StatusOr<std::shared_ptr<VariantProvider>>(Graph graph)>;

absl::StatusOr<std::shared_ptr<const Script>> BuildScript(const Graph& graph,
                                                          const MakeProvider& make);

// All graphs without dynamic nodes that the graph falls into, bodies' segments included, with names
// that say where they are. A graph without dynamic nodes is its only segment.
absl::StatusOr<std::vector<Graph>> Segments(const Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_SEGMENTS_H_
