// SPDX-License-Identifier: Apache-2.0
// A concat of many parts becomes a concat of concats: each part has an extent of its own, and a
// kernel has no more than a few dozen (kernel/kernel.h).
#include <algorithm>
#include <vector>

#include "kiln/base/status_macros.h"
#include "kiln/fusion/pass.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/op.h"

namespace kiln {
namespace {

constexpr size_t kMostParts = 16;

bool Split(Graph& graph, const Node& node) {
  GraphBuilder b(&graph);
  std::vector<ValueId> parts = node.inputs;
  while (parts.size() > kMostParts) {
    std::vector<ValueId> joined;
    for (size_t begin = 0; begin < parts.size(); begin += kMostParts) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>(begin);
      const size_t count = std::min(kMostParts, parts.size() - begin);
      joined.push_back(b.Op("concat", {first, first + static_cast<std::ptrdiff_t>(count)},
                            node.attrs, node.name));
    }
    parts = std::move(joined);
  }
  const ValueId all = b.Op("concat", std::move(parts), node.attrs, node.name);
  // Unknown extents may leave it with a shape that is not known to be the node's.
  if (!b.status().ok() || !(graph.value(all).shape == graph.value(node.outputs[0]).shape))
    return false;
  graph.ReplaceUses(node.outputs[0], all);
  return true;
}

}  // namespace

absl::StatusOr<bool> SplitConcats(Graph& graph, const PassContext&) {
  bool changed = false;
  const size_t count = graph.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    const Node node = graph.nodes()[i];  // a copy: nodes are added
    if (absl::string_view(node.op->name) == "concat" && node.inputs.size() > kMostParts)
      changed = Split(graph, node) || changed;
  }
  if (graph.nodes().size() == count) return false;
  KILN_RETURN_IF_ERROR(graph.Sort());
  graph.RemoveDead();
  return changed;
}

}  // namespace kiln
