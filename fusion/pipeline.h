// SPDX-License-Identifier: Apache-2.0
// The pass pipeline: every pass of the level, in table order, again until none changes the graph;
// then, once, those that run last.
#ifndef KILN_FUSION_PIPELINE_H_
#define KILN_FUSION_PIPELINE_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "fusion/pass.h"
#include "graph/graph.h"

namespace kiln {

struct PipelineOptions {
  int level = 3;
  Target target = LowestTarget();       // what the graph is compiled for
  bool fast = false;                    // fast math
  bool fuses_reductions = true;         // as in PassContext
  LibrarySet libraries = kHostLibrary;  // that there are for the target
  std::set<std::string> disabled = {};  // names of passes that do not run
  // Called after each pass that changed the graph (for dumps); may be empty.
  std::function<void(absl::string_view pass, const Graph& graph)> on_changed = {};
};

// Rewrites `graph` in place; ids change. On an error (kInvalidArgument for an unknown name in
// `disabled`, a pass's own error, or kInternal when a pass leaves a graph that does not verify) the
// graph is unspecified. Thread-compatible.
absl::Status RunPasses(Graph& graph, const PipelineOptions& options);

// Runs one pass and verifies what it leaves; returns whether it changed the graph. What `kiln opt`
// and RunPasses are made of.
absl::StatusOr<bool> RunPass(const Pass& pass, Graph& graph, const PassContext& context);

}  // namespace kiln

#endif  // KILN_FUSION_PIPELINE_H_
