// SPDX-License-Identifier: Apache-2.0
// A split becomes a slice for each part that is used. Each part can then join the kernel of its
// reader, and parts of several sizes need no kernel in common.
#include <vector>

#include "kiln/base/status_macros.h"
#include "kiln/fusion/pass.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/op.h"

namespace kiln {
namespace {

bool Expand(Graph& graph, const Node& node, const std::vector<std::vector<NodeId>>& users) {
  const auto rank = static_cast<int64_t>(graph.value(node.inputs[0]).shape.size());
  const int64_t axis =
      IntAttr(node, "axis") < 0 ? IntAttr(node, "axis") + rank : IntAttr(node, "axis");
  Dim start = 0;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const ValueId part : node.outputs) {
    const Shape shape = graph.value(part).shape;
    const Dim end = start + shape[static_cast<size_t>(axis)];
    if (!users[static_cast<size_t>(part.v)].empty() || graph.IsOutput(part)) {
      GraphBuilder b(&graph);
      const ValueId slice = b.Op("slice", {node.inputs[0]},
                                 {{"starts", DimsValue({start})},
                                  {"ends", DimsValue({end})},
                                  {"axes", DimsValue({Dim(axis)})}},
                                 node.name);
      // Unknown extents may leave the slice with a shape that is not known to be the part's.
      if (!b.status().ok() || !(graph.value(slice).shape == shape)) return false;
      replaced.emplace_back(part, slice);
    }
    start = end;
  }
  for (const auto& [part, slice] : replaced) graph.ReplaceUses(part, slice);
  return true;
}

}  // namespace

absl::StatusOr<bool> ExpandSplits(Graph& graph, const PassContext&) {
  bool changed = false;
  const size_t count = graph.nodes().size();
  const std::vector<std::vector<NodeId>> users = graph.Users();
  for (size_t i = 0; i < count; ++i) {
    const Node node = graph.nodes()[i];  // a copy: nodes are added
    if (absl::string_view(node.op->name) == "split")
      changed = Expand(graph, node, users) || changed;
  }
  if (graph.nodes().size() == count) return false;
  KILN_RETURN_IF_ERROR(graph.Sort());
  graph.RemoveDead();
  return changed;
}

}  // namespace kiln
