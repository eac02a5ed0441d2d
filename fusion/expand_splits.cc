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

// The part [start, start + extent) of the axis, of the shape `shape`. Where unknown extents leave a
// slice with a shape that is not known to be the part's, elements are cut off at both ends.
ValueId Part(GraphBuilder& b, const Node& node, int64_t axis, const Dim& start,
             const Shape& shape) {
  const Dim end = start + shape[static_cast<size_t>(axis)];
  const ValueId slice = b.Op("slice", {node.inputs[0]},
                             {{"starts", DimsValue({start})},
                              {"ends", DimsValue({end})},
                              {"axes", DimsValue({Dim(axis)})}},
                             node.name);
  if (b.status().ok() && b.value(slice).shape == shape) return slice;
  const Dim whole = b.value(node.inputs[0]).shape[static_cast<size_t>(axis)];
  return b.Op(
      "pad", {node.inputs[0]},
      {{"pads", DimsValue({Dim(0) - start, end - whole})}, {"axes", DimsValue({Dim(axis)})}},
      node.name);
}

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
      const ValueId piece = Part(b, node, axis, start, shape);
      if (!b.status().ok() || !(graph.value(piece).shape == shape)) return false;
      replaced.emplace_back(part, piece);
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
