// SPDX-License-Identifier: Apache-2.0
#include "compiler/constant_memory.h"

#include <algorithm>
#include <variant>

namespace kiln {

ConstantMemory::ConstantMemory(const Graph& graph, const std::vector<Tensor>& updatable) {
  const size_t own = graph.inputs().size() - updatable.size();
  for (size_t k = 0; k < updatable.size(); ++k)
    Add(graph.value(graph.inputs()[own + k]).name, updatable[k]);
  Add(graph);
  all_.SortJoined();
}

void ConstantMemory::Add(const std::string& name, const Tensor& tensor) {
  constants_.emplace_back(name, RangeOf(tensor));
  all_.Add(constants_.back().second, 0);
}

void ConstantMemory::Add(const Graph& graph) {
  for (const Value& value : graph.values()) {
    if (value.constant) Add(value.name, *value.constant);
  }
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, attribute] : node.attrs) {
      if (const Body* const body = std::get_if<Body>(&attribute)) Add(**body);
      if (const Tensor* const tensor = std::get_if<Tensor>(&attribute)) Add(node.name, *tensor);
    }
  }
}

std::string ConstantMemory::NameIn(const MemoryRange& range) const {
  if (!all_.Overlaps(range)) return "";
  const auto found = std::find_if(constants_.begin(), constants_.end(), [&](const auto& constant) {
    return Overlap(constant.second, range);
  });
  return found == constants_.end() ? "" : found->first;
}

}  // namespace kiln
