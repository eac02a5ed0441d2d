// SPDX-License-Identifier: Apache-2.0
#include "fusion/rewrite.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

bool ApplyRules(Graph& graph, NodeId id, std::span<const Rule> rules, const PassContext& context) {
  const Node node = graph.node(id);  // a copy: rules add nodes
  if (node.outputs.size() != 1) return false;
  const ValueId from = node.outputs[0];
  for (const Rule rule : rules) {
    const Found to = rule(graph, node, context);
    if (!to || *to == from) continue;
    const Value& a = graph.value(from);
    const Value& b = graph.value(*to);
    if (a.type != b.type || !(a.shape == b.shape)) continue;
    // An output of the graph stays the result of a node.
    if (b.producer.v < 0 && graph.IsOutput(from)) continue;
    graph.ReplaceUses(from, *to);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> Rewrite(Graph& graph, std::span<const Rule> rules,
                             const PassContext& context) {
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    const size_t count = graph.nodes().size();
    for (size_t i = 0; i < count; ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      again = ApplyRules(graph, id, rules, context) || again;
    }
    if (!again && graph.nodes().size() == count)
      break;  // no rule has left a node that it then did not use
    KILN_RETURN_IF_ERROR(graph.Sort());
    graph.RemoveDead();
    changed = changed || again;
  }
  return changed;
}

absl::StatusOr<bool> Finished(Graph& graph, bool changed) {
  if (!changed) return false;
  KILN_RETURN_IF_ERROR(graph.Sort());
  graph.RemoveDead();
  return true;
}

absl::Status Expand(Graph& graph, NodeId id,
                    absl::StatusOr<std::vector<ValueId>> (*meaning)(GraphBuilder& b,
                                                                    const Node& node)) {
  const Node node = graph.node(id);
  const size_t first_new = graph.nodes().size();
  GraphBuilder builder(&graph);
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs, meaning(builder, node));
  KILN_RETURN_IF_ERROR(builder.status());
  if (outputs.size() != node.outputs.size()) {
    return absl::InternalError(absl::StrCat("decomposition gives ", outputs.size(),
                                            " outputs, the node has ", node.outputs.size(),
                                            "; mend the op record"));
  }
  for (size_t i = first_new; i < graph.nodes().size(); ++i) {
    const NodeId added{static_cast<int32_t>(i)};
    graph.SetNodeName(added, absl::StrCat(node.name, "/", graph.node(added).op->name));
  }
  for (size_t k = 0; k < outputs.size(); ++k) graph.ReplaceUses(node.outputs[k], outputs[k]);
  return absl::OkStatus();
}

bool Is(const Node& node, absl::string_view op) { return node.op->name == op; }

const Node* Producer(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.v < 0 ? nullptr : &graph.node(id);
}

bool HasOneReader(const Graph& graph, ValueId value) {
  if (graph.IsOutput(value)) return false;
  int64_t reads = 0;
  for (const NodeId id : graph.UsersOf(value)) {
    const std::vector<ValueId>& inputs = graph.node(id).inputs;
    reads += std::count(inputs.begin(), inputs.end(), value);
  }
  return reads == 1;
}

ValueId ConstantLike(Graph& graph, ValueId like, double number) {
  const Value& value = graph.value(like);
  Tensor tensor = FilledTensor(value.type, value.constant->shape(), number);
  return graph.AddConstant("", std::move(tensor));
}

Found Made(Graph& graph, absl::string_view op, std::vector<ValueId> inputs, Attrs attrs,
           const std::string& name) {
  GraphBuilder b(&graph);
  const ValueId result = b.Op(op, std::move(inputs), std::move(attrs), name);
  return b.status().ok() ? Found(result) : std::nullopt;
}

}  // namespace kiln
