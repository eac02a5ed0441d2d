// SPDX-License-Identifier: Apache-2.0
// Powers and quotients become products and roots. With strict math, where that is the true value
// rounded once; with fast math also where it is not.
#include <cmath>
#include <optional>

#include "fusion/literal.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/op.h"

namespace kiln {
namespace {

// The number that the node's right operand is, if its operands are floats.
std::optional<double> RightNumber(const Graph& graph, const Node& node) {
  const Value& right = graph.value(node.inputs[1]);
  return IsFloat(right.type) ? NumberOf(right) : std::nullopt;
}

Found Power(Graph& graph, const Node& node, const PassContext& context) {
  if (!Is(node, "pow")) return std::nullopt;
  const std::optional<double> exponent = RightNumber(graph, node);
  const ValueId x = node.inputs[0];
  if (exponent == 2) return Made(graph, "mul", {x, x}, {}, node.name);
  if (exponent == -1) return Made(graph, "reciprocal", {x}, {}, node.name);
  if (!context.fast || !exponent) return std::nullopt;
  if (*exponent == 0.5) return Made(graph, "sqrt", {x}, {}, node.name);
  if (*exponent == -0.5) return Made(graph, "rsqrt", {x}, {}, node.name);
  if (*exponent != 3) return std::nullopt;
  const Found square = Made(graph, "mul", {x, x}, {}, node.name);
  return square ? Made(graph, "mul", {*square, x}, {}, node.name) : std::nullopt;
}

// x / c is x * (1 / c), exactly where c is a power of two.
Found Quotient(Graph& graph, const Node& node, const PassContext& context) {
  if (!Is(node, "div")) return std::nullopt;
  const std::optional<double> number = RightNumber(graph, node);
  if (!number || *number == 1) return std::nullopt;
  int exponent = 0;
  const double fraction = std::frexp(*number, &exponent);
  constexpr int kLimit = 14;  // correctness: both powers are normal in every float type
  if (!std::isfinite(*number) || *number == 0 || std::abs(exponent - 1) > kLimit)
    return std::nullopt;
  if (std::abs(fraction) != 0.5 && !context.fast) return std::nullopt;
  const ValueId factor = ConstantLike(graph, node.inputs[1], 1 / *number);
  return Made(graph, "mul", {node.inputs[0], factor}, {}, node.name);
}

constexpr Rule kStrengthReductionRules[] = {Power, Quotient};

}  // namespace

absl::StatusOr<bool> StrengthReduction(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kStrengthReductionRules, context);
}

}  // namespace kiln
