// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/specialize.h"

#include <string>
#include <utility>

#include "kiln/base/status_macros.h"
#include "kiln/graph/op.h"

namespace kiln {

absl::StatusOr<Graph> WithInputShapes(const Graph& graph, const std::vector<Shape>& input_shapes) {
  Graph out;
  out.name = graph.name;
  std::vector<ValueId> map(graph.values().size());
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    const Value& input = graph.value(graph.inputs()[k]);
    map[static_cast<size_t>(graph.inputs()[k].v)] =
        out.AddInput(input.name, input.type, input_shapes[k]);
  }
  for (const Guard& guard : graph.guards()) {  // what inference asks for it asks for again
    if (guard.kind == Guard::Kind::kValue) out.AddGuard(guard);
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.producer.v < 0 && value.constant.has_value())
      map[v] = out.AddConstant(value.name, *value.constant);
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs)
      inputs.push_back(id.valid() ? map[static_cast<size_t>(id.v)] : ValueId{});
    std::vector<std::string> names;
    for (ValueId id : node.outputs) names.push_back(graph.value(id).name);
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> outputs,
        out.AddNode(*node.op, std::move(inputs), node.attrs, node.name, std::move(names)));
    for (size_t k = 0; k < outputs.size(); ++k)
      map[static_cast<size_t>(node.outputs[k].v)] = outputs[k];
  }
  for (const Graph::Output& output : graph.outputs())
    out.AddOutput(map[static_cast<size_t>(output.value.v)], output.name);
  return out;
}

}  // namespace kiln
