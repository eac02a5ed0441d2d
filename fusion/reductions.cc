// SPDX-License-Identifier: Apache-2.0
// Reductions of reductions become one, and sums over a count means. Sums of floats change their
// order with that, and so which of two zeros their largest is: with fast math only.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "fusion/literal.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/op.h"

namespace kiln {
namespace {

// The axes that a reduction takes, ascending.
std::vector<int64_t> AxesOf(const Graph& graph, const Node& node) {
  const auto rank = static_cast<int64_t>(graph.value(node.inputs[0]).shape.size());
  std::vector<int64_t> axes = IntsAttr(node, "axes");
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  if (axes.empty()) {  // all
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool KeepsAxes(const Graph& graph, const Node& node) {
  return graph.value(node.outputs[0]).shape.size() == graph.value(node.inputs[0]).shape.size();
}

Found OfReduction(Graph& graph, const Node& node, const PassContext& context) {
  if (node.op->kind != OpKind::kReduce) return std::nullopt;
  const bool joins = Is(node, "reduce_max") || Is(node, "reduce_min") || Is(node, "reduce_sum") ||
                     Is(node, "reduce_prod");
  const bool exact = IsInt(graph.value(node.outputs[0]).type);
  if (!joins || !(exact || context.fast)) return std::nullopt;
  const Node* inner = Producer(graph, node.inputs[0]);
  if (inner == nullptr || inner->op != node.op || !HasOneReader(graph, node.inputs[0]))
    return std::nullopt;
  const bool keeps = KeepsAxes(graph, node);
  if (keeps != KeepsAxes(graph, *inner)) return std::nullopt;
  // Axes of the outer one, by their place in the inner one's operand.
  std::vector<int64_t> axes = AxesOf(graph, *inner);
  std::vector<int64_t> left;
  for (size_t axis = 0; axis < graph.value(inner->inputs[0]).shape.size(); ++axis) {
    const auto number = static_cast<int64_t>(axis);
    if (keeps || std::find(axes.begin(), axes.end(), number) == axes.end()) left.push_back(number);
  }
  for (const int64_t axis : AxesOf(graph, node)) axes.push_back(left[static_cast<size_t>(axis)]);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty()) return std::nullopt;
  return Made(graph, node.op->name, {inner->inputs[0]},
              {{"axes", std::move(axes)}, {"keepdims", int64_t{keeps}}}, node.name);
}

Found Mean(Graph& graph, const Node& node, const PassContext& context) {
  if (!Is(node, "div") && !Is(node, "mul")) return std::nullopt;
  const std::optional<double> number = NumberOf(graph.value(node.inputs[1]));
  const Node* sum = Producer(graph, node.inputs[0]);
  if (!number || sum == nullptr || !Is(*sum, "reduce_sum")) return std::nullopt;
  const Value& operand = graph.value(sum->inputs[0]);
  if (!IsFloat(operand.type) || !HasOneReader(graph, node.inputs[0])) return std::nullopt;
  const std::vector<int64_t> axes = AxesOf(graph, *sum);
  Dim count = 1;
  for (const int64_t axis : axes) count = count * operand.shape[static_cast<size_t>(axis)];
  if (axes.empty() || !count.constant() || *count.constant() <= 0) return std::nullopt;
  const auto elements = static_cast<double>(*count.constant());
  int ignored = 0;
  const bool power = std::frexp(elements, &ignored) == 0.5;
  const double error = std::abs((Is(node, "div") ? *number / elements : *number * elements) - 1);
  // A 16-bit sum is rounded, and may overflow, before it is divided.
  const bool narrow = SizeOf(operand.type) == 2;
  const bool exact = error == 0 && (Is(node, "div") || power) && !narrow;
  if (!exact && !(context.fast && error < 1e-6)) return std::nullopt;
  return Made(graph, "reduce_mean", {sum->inputs[0]},
              {{"axes", axes}, {"keepdims", int64_t{KeepsAxes(graph, *sum)}}}, node.name);
}

constexpr Rule kReductionsRules[] = {OfReduction, Mean};

}  // namespace

absl::StatusOr<bool> Reductions(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kReductionsRules, context);
}

}  // namespace kiln
