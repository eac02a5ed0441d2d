// SPDX-License-Identifier: Apache-2.0
// A split becomes a slice for each part that is used. Each part can then join the kernel of its
// reader, and parts of several sizes need no kernel in common.
#include <vector>

#include "base/status_macros.h"
#include "fusion/pass.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// Elements start, start + 1, ... below end of an axis; invalid if its shape does not come out as
// `shape`. A slice is cut at the axis's end, which need not be known; that the parts fill the axis
// is then a guard of the split's, and what is cut away is padding below 0.
ValueId Part(Graph& graph, const Node& node, int64_t axis, const Dim& start, const Dim& end,
             const Shape& shape) {
  const auto at = static_cast<size_t>(axis);
  const Shape from = graph.value(node.inputs[0]).shape;
  const auto fits = [&](const GraphBuilder& b, ValueId part) {
    return b.status().ok() && graph.value(part).shape == shape;
  };
  GraphBuilder slicing(&graph);
  const ValueId slice = slicing.Op("slice", {node.inputs[0]},
                                   {{"starts", DimsValue({start})},
                                    {"ends", DimsValue({end})},
                                    {"axes", DimsValue({Dim(axis)})}},
                                   node.name);
  if (fits(slicing, slice)) return slice;
  Shape pads(2 * from.size(), 0);
  pads[at] = Dim(0) - start;
  pads[from.size() + at] = end - from[at];
  GraphBuilder cutting(&graph);
  const ValueId cut = cutting.Op("pad", {node.inputs[0]}, {{"pads", DimsValue(pads)}}, node.name);
  return fits(cutting, cut) ? cut : ValueId{};
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
      const ValueId own = Part(graph, node, axis, start, end, shape);
      if (!own.valid()) return false;
      replaced.emplace_back(part, own);
    }
    start = end;
  }
  for (const auto& [part, own] : replaced) graph.ReplaceUses(part, own);
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
