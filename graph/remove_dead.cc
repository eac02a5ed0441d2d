// SPDX-License-Identifier: Apache-2.0
// What no output of a graph needs. Nodes that find out extents are needed by who reads the symbols.
#include <algorithm>
#include <functional>
#include <utility>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

size_t Index(ValueId id) { return static_cast<size_t>(id.v); }

}  // namespace

bool Graph::RemoveDead() {
  std::vector<bool> live_value(values_.size(), false);
  std::vector<bool> live_node(nodes_.size(), false);
  std::vector<ValueId> work;
  const auto need = [&](ValueId id) {
    if (!id.valid() || live_value[Index(id)]) return;
    live_value[Index(id)] = true;
    work.push_back(id);
  };
  // A live node also needs the nodes that give its symbols their values.
  std::map<std::string, ValueId> teacher;
  for (const Node& node : nodes_) {
    if (!node.op->dynamic) continue;
    for (const ValueId id : node.outputs)
      ForEachLearned(value(id), [&](const std::string& symbol) { teacher.emplace(symbol, id); });
  }
  for (const ValueId id : inputs_) {
    if (!teacher.empty())
      ForEachLearned(value(id), [&](const std::string& symbol) { teacher.erase(symbol); });
  }
  for (const Output& output : outputs_) need(output.value);
  // What is assumed of a symbol can be asked only while something tells it.
  for (const Guard& guard : guards_) {
    if (teacher.empty()) break;
    for (const std::string& symbol : guard.Symbols()) {
      if (const auto found = teacher.find(symbol); found != teacher.end()) need(found->second);
    }
  }
  while (!work.empty()) {
    const NodeId producer = values_[Index(work.back())].producer;
    work.pop_back();
    if (producer.v < 0 || live_node[static_cast<size_t>(producer.v)]) continue;
    live_node[static_cast<size_t>(producer.v)] = true;
    for (const ValueId id : node(producer).inputs) need(id);
    for (const ValueId id : node(producer).outputs) need(id);
    if (teacher.empty()) continue;
    for (const std::string& symbol : SymbolsOf(*this, node(producer))) {
      if (const auto found = teacher.find(symbol); found != teacher.end()) need(found->second);
    }
  }
  for (const ValueId id : inputs_) live_value[Index(id)] = true;

  std::vector<NodeId> new_node(nodes_.size());
  std::vector<Node> nodes;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!live_node[i]) continue;
    new_node[i] = NodeId{static_cast<int32_t>(nodes.size())};
    nodes.push_back(std::move(nodes_[i]));
  }
  std::vector<ValueId> new_value(values_.size());
  std::vector<Value> values;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!live_value[i]) {
      names_.erase(values_[i].name);
      continue;
    }
    new_value[i] = ValueId{static_cast<int32_t>(values.size())};
    if (values_[i].producer.v >= 0)
      values_[i].producer = new_node[static_cast<size_t>(values_[i].producer.v)];
    values.push_back(std::move(values_[i]));
  }
  const bool changed = nodes.size() != nodes_.size() || values.size() != values_.size();
  nodes_ = std::move(nodes);
  values_ = std::move(values);
  const auto renumber = [&](ValueId& id) {
    if (id.valid()) id = new_value[Index(id)];
  };
  for (Node& node : nodes_) {
    node.operands.clear();
    for (ValueId& id : node.inputs) renumber(id);
    for (ValueId& id : node.outputs) renumber(id);
  }
  for (ValueId& id : inputs_) renumber(id);
  for (Output& output : outputs_) renumber(output.value);
  FindUses();
  return changed;
}

}  // namespace kiln
