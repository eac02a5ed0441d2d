// SPDX-License-Identifier: Apache-2.0
// What is computed element by element to have few of its elements picked is computed for those.
//
// Example: of log-softmax and the labels' elements, gather_elements(sub(x, l), i) with l one number
// a row becomes sub(gather_elements(x, i), l), so that no kernel stores the differences.
#include <optional>
#include <vector>

#include "fusion/literal.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/infer.h"
#include "graph/op.h"

namespace kiln {
namespace {

constexpr int64_t kFewer = 4;  // speed: elements for each that is picked

// True if `a` and `b` differ along `axis` at most.
bool SameElsewhere(const Shape& a, const Shape& b, size_t axis) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (i != axis && !(a[i] == b[i])) return false;
  }
  return true;
}

Found OfFewer(Graph& graph, const Node& node, const PassContext&) {
  if (!Is(node, "gather_elements")) return std::nullopt;
  const Node* producer = Producer(graph, node.inputs[0]);
  if (producer == nullptr || producer->op->kind != OpKind::kScalar) return std::nullopt;
  if (producer->outputs.size() != 1) return std::nullopt;
  const Shape all = graph.value(node.inputs[0]).shape, picked = graph.value(node.inputs[1]).shape;
  const auto axis = static_cast<size_t>(*NormalAxis(IntAttr(node, "axis"), all.size()));
  if (!SameElsewhere(all, picked, axis)) return std::nullopt;
  const int64_t few = picked[axis].constant().value_or(INT64_MAX / kFewer);
  if (all[axis].constant().value_or(0) < kFewer * few) return std::nullopt;
  const Node maker = *producer;  // a copy: nodes are added
  std::vector<ValueId> inputs;
  for (const ValueId operand : maker.inputs) {
    if (!operand.valid()) return std::nullopt;
    const Shape shape = graph.value(operand).shape;
    const bool once = SameElsewhere(shape, all, axis) && shape[axis].constant() == 1;
    if (once || NumberOf(graph.value(operand))) {
      inputs.push_back(operand);
    } else if (shape == all) {
      const Found of =
          Made(graph, "gather_elements", {operand, node.inputs[1]}, node.attrs, node.name);
      if (!of) return std::nullopt;
      inputs.push_back(*of);
    } else {
      return std::nullopt;
    }
  }
  return Made(graph, maker.op->name, inputs, maker.attrs, node.name);
}

constexpr Rule kHoistGathersRules[] = {OfFewer};

}  // namespace

absl::StatusOr<bool> HoistGathers(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kHoistGathersRules, context);
}

}  // namespace kiln
