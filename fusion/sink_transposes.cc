// SPDX-License-Identifier: Apache-2.0
// Moves that are undone are never made: where element-wise nodes with no other operand than numbers
// stand between a reshape and the reshape back, or between two transposes, they run on what the
// first one read, and the moves meet.
//
// Example: transpose(relu(transpose(x, [1, 0])), [1, 0]) becomes relu(x).
#include <algorithm>
#include <optional>
#include <vector>

#include "fusion/literal.h"
#include "fusion/node_reads.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/op.h"

namespace kiln {
namespace {

constexpr size_t kMostBetween = 16;  // compile time

// The one operand of an element-wise node that is no number; -1 if it has several.
int MovedOperand(const Graph& graph, const Node& node) {
  if (node.op->kind != OpKind::kScalar || node.outputs.size() != 1) return -1;
  int moved = -1;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (!node.inputs[k].valid() || NumberOf(graph.value(node.inputs[k]))) continue;
    if (moved >= 0) return -1;
    moved = static_cast<int>(k);
  }
  if (moved < 0) return -1;
  const Shape& shape = graph.value(node.inputs[static_cast<size_t>(moved)]).shape;
  return shape == graph.value(node.outputs[0]).shape ? moved : -1;
}

Found Sink(Graph& graph, const Node& node, const PassContext&) {
  const bool transposes = Is(node, "transpose");
  if (!transposes && !ViewSource(graph, node.outputs[0])) return std::nullopt;
  std::vector<Node> between;  // from the last on
  ValueId value = node.inputs[0];
  const Node* first = nullptr;
  while (between.size() <= kMostBetween) {
    const Node* producer = Producer(graph, value);
    if (producer == nullptr || !HasOneReader(graph, value)) return std::nullopt;
    const int moved = MovedOperand(graph, *producer);
    if (moved < 0) {
      first = producer;
      break;
    }
    between.push_back(*producer);
    value = producer->inputs[static_cast<size_t>(moved)];
  }
  if (first == nullptr || between.empty()) return std::nullopt;
  if (transposes ? !Is(*first, "transpose") : !ViewSource(graph, first->outputs[0]))
    return std::nullopt;
  ValueId x = first->inputs[0];
  // A reshape is undone only by the one that gives the shape back.
  if (!transposes && !(graph.value(x).shape == graph.value(node.outputs[0]).shape))
    return std::nullopt;
  const Node move = *first;  // a copy: nodes are added
  for (size_t i = between.size(); i-- > 0;) {
    std::vector<ValueId> inputs = between[i].inputs;
    inputs[static_cast<size_t>(MovedOperand(graph, between[i]))] = x;
    const Found made = Made(graph, between[i].op->name, inputs, between[i].attrs, between[i].name);
    if (!made) return std::nullopt;
    x = *made;
  }
  if (!transposes) return x;
  const Found again = Made(graph, "transpose", {x}, move.attrs, move.name);
  return again ? Made(graph, "transpose", {*again}, node.attrs, node.name) : std::nullopt;
}

constexpr Rule kSinkTransposesRules[] = {Sink};

}  // namespace

absl::StatusOr<bool> SinkTransposes(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kSinkTransposesRules, context);
}

}  // namespace kiln
