// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/name.h"
#include "fusion/group.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Names may come from a file; PrintName keeps control characters out of the text.
std::string Shown(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return absl::StrCat(PrintName(node.name.empty() ? graph.value(node.outputs[0]).name : node.name),
                      ":", node.op->name);
}

}  // namespace

const char* Name(Group::Kind kind) {
  constexpr const char* kNames[] = {"kernel", "view", "library", "host"};
  return kNames[static_cast<size_t>(kind)];
}

std::string ToString(const Grouping& grouping, const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < grouping.groups.size(); ++i) {
    const Group& group = grouping.groups[i];
    absl::StrAppend(&text, "group ", i, " ", Name(group.kind), " {");
    for (const NodeId id : group.nodes) absl::StrAppend(&text, " ", Shown(graph, id));
    text += " } ->";
    for (const ValueId output : group.outputs)
      absl::StrAppend(&text, " ", PrintName(graph.value(output).name));
    text += '\n';
  }
  for (const EdgeDecision& edge : grouping.edges) {
    absl::StrAppend(&text, "edge ", Shown(graph, edge.producer), " -> ",
                    Shown(graph, edge.consumer), " ", edge.bytes,
                    " bytes: ", edge.fused ? "fused" : "not fused: ", edge.reason, "\n");
  }
  return text;
}

std::string ToDot(const Grouping& grouping, const Graph& graph) {
  std::string text = "digraph kiln {\n  node [shape=box];\n";
  for (size_t i = 0; i < grouping.groups.size(); ++i) {
    const Group& group = grouping.groups[i];
    const bool boxed = group.nodes.size() > 1;
    if (boxed) {
      absl::StrAppend(&text, "  subgraph cluster_", i, " {\n    label=\"", Name(group.kind), " ", i,
                      "\";\n");
    }
    for (const NodeId id : group.nodes) {
      absl::StrAppend(&text, boxed ? "    " : "  ", "n", id.v, " [label=\"",
                      absl::CEscape(Shown(graph, id)), "\"];\n");
    }
    if (boxed) text += "  }\n";
  }
  for (const EdgeDecision& edge : grouping.edges) {
    absl::StrAppend(&text, "  n", edge.producer.v, " -> n", edge.consumer.v);
    if (!edge.fused) absl::StrAppend(&text, " [style=dashed, label=\"", edge.bytes, " B\"]");
    text += ";\n";
  }
  return text + "}\n";
}

}  // namespace kiln
