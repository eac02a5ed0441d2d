// SPDX-License-Identifier: Apache-2.0
// Nodes that apply one op to the same inputs with the same attributes become one, and so do equal
// small constants.
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fusion/node_key.h"
#include "fusion/pass.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Larger constants are not compared: reading all weights costs more than it saves.
constexpr int64_t kMaxComparedBytes = 64 << 10;  // compile time

std::string KeyOf(const Node& node) {
  std::string key = absl::StrCat(node.op->name, "/", node.outputs.size());
  for (const ValueId input : node.inputs) absl::StrAppend(&key, ",", input.v);
  AppendAttrs(node.attrs, key);
  return key;
}

using Table = std::unordered_map<std::string, int32_t>;

bool MergeConstants(Graph& graph) {
  Table first;
  bool changed = false;
  // An input whose value is assumed stays an input, whatever its uses become.
  std::vector<bool> is_input(graph.values().size(), false);
  for (const ValueId id : graph.inputs()) is_input[static_cast<size_t>(id.v)] = true;
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const std::optional<Tensor>& constant = graph.values()[i].constant;
    if (is_input[i] || !constant || !constant->is_dense() ||
        constant->size_bytes() > kMaxComparedBytes)
      continue;
    std::string key;
    AppendTensor(*constant, key);
    const auto [it, added] = first.emplace(std::move(key), static_cast<int32_t>(i));
    if (added) continue;
    graph.ReplaceUses(ValueId{static_cast<int32_t>(i)}, ValueId{it->second});
    changed = true;
  }
  return changed;
}

bool MergeNodes(Graph& graph) {
  Table first;
  bool changed = false;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->kind == OpKind::kHost)
      continue;  // may have effects or depend on more than its inputs
    const auto [it, added] = first.emplace(KeyOf(node), static_cast<int32_t>(i));
    if (added) continue;
    const Node& kept = graph.nodes()[static_cast<size_t>(it->second)];
    for (size_t k = 0; k < node.outputs.size(); ++k)
      graph.ReplaceUses(node.outputs[k], kept.outputs[k]);
    changed = true;
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> CommonSubexpressions(Graph& graph, const PassContext&) {
  const bool constants = MergeConstants(graph);
  const bool nodes = MergeNodes(graph);
  if (constants || nodes) graph.RemoveDead();
  return constants || nodes;
}

}  // namespace kiln
