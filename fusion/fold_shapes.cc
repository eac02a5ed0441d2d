// SPDX-License-Identifier: Apache-2.0
// Values whose elements shape arithmetic has found, and which hold no symbol, become constants.
#include <vector>

#include "fusion/pass.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln {

absl::StatusOr<bool> FoldShapes(Graph& graph, const PassContext&) {
  bool changed = false;
  const std::vector<std::vector<NodeId>> users = graph.Users();
  const size_t count = users.size();
  for (size_t i = 0; i < count; ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const Value& value = graph.value(id);
    if (value.producer.v < 0 || !value.shape_content || (users[i].empty() && !graph.IsOutput(id)))
      continue;
    const std::optional<std::vector<int64_t>> content = Constant(*value.shape_content);
    const std::optional<std::vector<int64_t>> shape = Constant(value.shape);
    if (!content || !shape) continue;
    Tensor tensor = Tensor::Allocate(value.type, *shape);
    if (tensor.num_elements() != static_cast<int64_t>(content->size())) continue;
    for (size_t k = 0; k < content->size(); ++k)
      WriteInt(tensor, static_cast<int64_t>(k), (*content)[k]);
    graph.ReplaceUses(id, graph.AddConstant("", std::move(tensor)));
    changed = true;
  }
  if (changed) graph.RemoveDead();
  return changed;
}

}  // namespace kiln
