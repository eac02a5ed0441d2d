// SPDX-License-Identifier: Apache-2.0
// Composite nodes become what they mean: scalar, reduce, index and library nodes. So a softmax
// written as one node and one written as five become the same kernel.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Composites may mean other composites, but not without end.
constexpr int kMaxDepth = 8;  // correctness

}  // namespace

absl::StatusOr<bool> ExpandComposites(Graph& graph, const PassContext&) {
  bool changed = false;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    std::vector<NodeId> composites;
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      if (graph.nodes()[i].op->kind == OpKind::kComposite)
        composites.push_back(NodeId{static_cast<int32_t>(i)});
    }
    if (composites.empty()) return changed;
    for (const NodeId id : composites) {
      const std::string name = graph.node(id).name;
      if (absl::Status status = Expand(graph, id, graph.node(id).op->decompose); !status.ok()) {
        return Annotate(status, absl::StrCat("node \"", name, "\""));
      }
    }
    KILN_RETURN_IF_ERROR(graph.Sort());
    graph.RemoveDead();
    changed = true;
  }
  return absl::InternalError(absl::StrCat("expand_composites: composites nest deeper than ",
                                          kMaxDepth, "; mend the op records"));
}

}  // namespace kiln
