// SPDX-License-Identifier: Apache-2.0
// (x op c1) op c2 becomes x op (c1 op c2): for max and min, for integers, which wrap, and with fast
// math for floats too.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kiln/fusion/literal.h"
#include "kiln/fusion/pass.h"
#include "kiln/fusion/rewrite.h"
#include "kiln/graph/op.h"

namespace kiln {
namespace {

// The place of the operand that is a number, the other being none; -1 if there is not just one.
int NumberAt(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2 || !node.inputs[0].valid() || !node.inputs[1].valid()) return -1;
  const bool left = NumberOf(graph.value(node.inputs[0])).has_value();
  const bool right = NumberOf(graph.value(node.inputs[1])).has_value();
  return left == right ? -1 : right ? 1 : 0;
}

// Numbers are doubles here: what they cannot hold stays as it is.
std::optional<double> Joined(const Node& node, DType type, double a, double b, bool fast) {
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  if (Is(node, "max")) return a < b ? b : a;
  if (Is(node, "min")) return b < a ? b : a;
  if (IsFloat(type) ? !fast : !IsInt(type)) return std::nullopt;
  const double joined = Is(node, "add") ? a + b : a * b;
  constexpr double kExact = 1 << 30;
  const bool fits = IsFloat(type) || (std::abs(joined) < (SizeOf(type) < 4 ? 128 : kExact) &&
                                      (IsSigned(type) || joined >= 0));
  return fits && std::isfinite(joined) ? std::optional(joined) : std::nullopt;
}

Found Chain(Graph& graph, const Node& node, const PassContext& context) {
  if (!Is(node, "add") && !Is(node, "mul") && !Is(node, "max") && !Is(node, "min"))
    return std::nullopt;
  const int own = NumberAt(graph, node);
  if (own < 0) return std::nullopt;
  const Node* inner = Producer(graph, node.inputs[static_cast<size_t>(1 - own)]);
  if (inner == nullptr || inner->op != node.op) return std::nullopt;
  const int other = NumberAt(graph, *inner);
  if (other < 0) return std::nullopt;
  const ValueId x = inner->inputs[static_cast<size_t>(1 - other)];
  const ValueId first = inner->inputs[static_cast<size_t>(other)];
  const ValueId second = node.inputs[static_cast<size_t>(own)];
  const std::optional<double> joined =
      Joined(node, graph.value(second).type, *NumberOf(graph.value(first)),
             *NumberOf(graph.value(second)), context.fast);
  if (!joined) return std::nullopt;
  return Made(graph, node.op->name, {x, ConstantLike(graph, second, *joined)}, {}, node.name);
}

constexpr Rule kRules[] = {Chain};

}  // namespace

absl::StatusOr<bool> ConstantChains(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kRules, context);
}

}  // namespace kiln
