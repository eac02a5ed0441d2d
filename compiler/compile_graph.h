// SPDX-License-Identifier: Apache-2.0
// The heart of compilation: a graph becomes a Program, step by step. Each step is a component or a
// file of its own; compile_graph.cc has them in order.
#ifndef KILN_COMPILER_COMPILE_GRAPH_H_
#define KILN_COMPILER_COMPILE_GRAPH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/machine_of.h"
#include "exec/provider.h"
#include "fusion/group.h"
#include "graph/graph.h"
#include "kiln/options.h"

namespace kiln {

// What compilation made of a graph, before there is code for its kernels.
struct Compiled {
  Graph graph;  // after passes
  Grouping grouping;
  Variant variant;            // without kernel handles
  std::vector<int> thunk_of;  // by group: its thunk in the program's first region; -1: it has none
};

// The pure part of compilation: Graph -> passes -> groups -> kernels -> schedules -> Program. The
// same graph and options give the same; no file, cache or process is asked. The Program's kernels
// get their code from a KernelService (Variants::Prepare).
absl::StatusOr<Compiled> CompileGraph(const Graph& graph, const CompileOptions& options);

// The same of all of a graph, for those who look: one for each segment (segments.h), in the order
// in which they stand. The name of its graph says which segment it is.
absl::StatusOr<std::vector<Compiled>> CompileParts(const Graph& graph,
                                                   const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_COMPILE_GRAPH_H_
