// SPDX-License-Identifier: Apache-2.0
// (x op c1) op c2 becomes x op (c1 op c2): for max and min, for integers, which wrap, and with fast
// math for floats too.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "fusion/literal.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln {
namespace {

// The place of the operand that is a number, the other being none; -1 if there is not just one.
int NumberAt(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2 || !node.inputs[0].valid() || !node.inputs[1].valid()) return -1;
  const bool left = NumberOf(graph.value(node.inputs[0])).has_value();
  const bool right = NumberOf(graph.value(node.inputs[1])).has_value();
  return left == right ? -1 : right ? 1 : 0;
}

// Whether a < b, for numbers of `type` as LiteralOf has them.
bool Less(DType type, uint64_t a, uint64_t b) {
  if (IsFloat(type)) return ConstValue(ComputeType(type), a) < ConstValue(ComputeType(type), b);
  return IsSigned(type) ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
}

// max(max(x, a), b) for numbers a and b, or with operands the other way round: the node of the
// larger number alone. Of two equal numbers, which may be zeros of different sign, the outer one is
// taken where it is the second operand, since of equal operands max gives the second.
Found Extreme(Graph& graph, const Node& outer, int at, const Node& inner, int inner_at, ValueId x) {
  const ValueId a = inner.inputs[static_cast<size_t>(inner_at)];
  const ValueId b = outer.inputs[static_cast<size_t>(at)];
  const DType type = graph.value(b).type;
  const uint64_t first = *LiteralOf(graph.value(a)), second = *LiteralOf(graph.value(b));
  if (IsFloat(type) &&
      (std::isnan(*NumberOf(graph.value(a))) || std::isnan(*NumberOf(graph.value(b)))))
    return std::nullopt;
  const bool is_max = Is(outer, "max");
  const bool outer_wins = is_max ? Less(type, first, second) : Less(type, second, first);
  const bool inner_wins = is_max ? Less(type, second, first) : Less(type, first, second);
  const bool take_outer = outer_wins || (!inner_wins && at == 1);
  const ValueId number = take_outer ? b : a;
  const bool number_first = (take_outer ? at : inner_at) == 0;
  return Made(graph, outer.op->name,
              number_first ? std::vector<ValueId>{number, x} : std::vector<ValueId>{x, number}, {},
              outer.name);
}

// (x + a) + b and (x * a) * b: integers wrap, so their order is free; that of floats with fast
// math.
Found Total(Graph& graph, const Node& outer, ValueId x, ValueId a, ValueId b, bool fast) {
  const DType type = graph.value(b).type;
  if (!IsInt(type) && !(fast && IsFloat(type))) return std::nullopt;
  const bool sum = Is(outer, "add");
  Tensor tensor = Tensor::Allocate(type, graph.value(b).constant->shape());
  if (IsInt(type)) {
    const uint64_t first = *LiteralOf(graph.value(a)), second = *LiteralOf(graph.value(b));
    WriteInt(tensor, 0, static_cast<int64_t>(sum ? first + second : first * second));
  } else {
    const double first = *NumberOf(graph.value(a)), second = *NumberOf(graph.value(b));
    const double total = sum ? first + second : first * second;
    if (!std::isfinite(total)) return std::nullopt;
    WriteFloat(tensor, 0, total);
  }
  return Made(graph, outer.op->name, {x, graph.AddConstant("", std::move(tensor))}, {}, outer.name);
}

Found Chain(Graph& graph, const Node& node, const PassContext& context) {
  const bool extreme = Is(node, "max") || Is(node, "min");
  if (!extreme && !Is(node, "add") && !Is(node, "mul")) return std::nullopt;
  const int own = NumberAt(graph, node);
  if (own < 0) return std::nullopt;
  const Node* inner = Producer(graph, node.inputs[static_cast<size_t>(1 - own)]);
  if (inner == nullptr || inner->op != node.op) return std::nullopt;
  const int other = NumberAt(graph, *inner);
  if (other < 0) return std::nullopt;
  const ValueId x = inner->inputs[static_cast<size_t>(1 - other)];
  if (extreme) return Extreme(graph, node, own, *inner, other, x);
  return Total(graph, node, x, inner->inputs[static_cast<size_t>(other)],
               node.inputs[static_cast<size_t>(own)], context.fast);
}

constexpr Rule kConstantChainsRules[] = {Chain};

}  // namespace

absl::StatusOr<bool> ConstantChains(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kConstantChainsRules, context);
}

}  // namespace kiln
