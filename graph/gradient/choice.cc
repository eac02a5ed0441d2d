// SPDX-License-Identifier: Apache-2.0
// Gradients of choices between operands, where at a tie they are not those of the formula, and of
// powers. Conventions are torch's.
#include <optional>
#include <utility>

#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

bool Has(const Node& node, size_t k) { return k < node.inputs.size() && node.inputs[k].valid(); }

// `part`, of the output's shape, as the cotangent of input k.
ValueId For(Nodes& m, const Node& node, size_t k, ValueId part) {
  const ValueId input = node.inputs[k];
  return m.To(m.SumTo(part, m.ShapeOf(input)), m.TypeOf(input));
}

ValueId And(Nodes& m, ValueId a, ValueId b) { return m.Op("and", {a, b}); }
ValueId Not(Nodes& m, ValueId a) { return m.Op("not", {a}); }

// The one number that a value is, if it is a constant.
std::optional<double> NumberOf(const GraphBuilder& b, ValueId id) {
  const Value& value = b.value(id);
  if (!value.constant || value.constant->num_elements() != 1) return std::nullopt;
  return ReadFloat(Dense(*value.constant), 0);
}

// a to the power b, where `b` may be a number: pow knows those that are products and roots.
ValueId Power(Nodes& m, ValueId a, ValueId b) { return m.Op("pow", {a, b}); }

ValueId OfBase(Nodes& m, const Node& node, ValueId a, ValueId b, ValueId g) {
  const DType type = m.TypeOf(a), exponent_type = m.TypeOf(b);
  if (const std::optional<double> number = NumberOf(m.builder(), node.inputs[1])) {
    if (*number == 0) return {};
    if (*number == 1) return g;
    const ValueId slope =
        m.Mul(m.Number(type, *number), *number == 2 ? a : Power(m, a, m.Number(type, *number - 1)));
    return m.Mul(g, slope);
  }
  const ValueId slope = m.Mul(m.To(b, type), Power(m, a, m.Sub(b, m.Number(exponent_type, 1))));
  return m.Unless(m.Equal(b, m.Number(exponent_type, 0)), m.Mul(g, slope));
}

ValueId OfExponent(Nodes& m, ValueId a, ValueId b, ValueId g) {
  const ValueId zero = m.Number(m.TypeOf(a), 0);
  const ValueId slope = m.Mul(Power(m, a, b), m.Op("log", {a}));
  const ValueId flat =
      And(m, m.Equal(a, zero), m.Op("greater_equal", {b, m.Number(m.TypeOf(b), 0)}));
  return m.Mul(g, m.Unless(flat, slope));
}

}  // namespace

absl::StatusOr<Ids> Nothing(GraphBuilder&, const Node& node, std::span<const ValueId>) {
  return Ids(node.inputs.size());
}

// The chosen operand takes g, both take half of it at a tie; with a NaN both take it.
absl::StatusOr<Ids> Extremum(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const bool largest = node.op->name == absl::string_view("max");
  const ValueId wide = m.Wide(g[0]);
  const ValueId half = m.Mul(wide, m.Number(m.TypeOf(wide), 0.5));
  const ValueId tie = m.Equal(node.inputs[0], node.inputs[1]);
  Ids result;
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const ValueId own = node.inputs[k], other = node.inputs[1 - k];
    const ValueId beaten = largest ? m.Less(own, other) : m.Less(other, own);
    result.push_back(For(m, node, k, m.Where(tie, half, m.Unless(beaten, wide))));
  }
  return m.Give(std::move(result));
}

// Within the bounds, which count as within, x takes g; outside the bound that is given does.
absl::StatusOr<Ids> Clip(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0], wide = m.Wide(g[0]);
  Ids result(node.inputs.size());
  std::optional<ValueId> outside;
  std::optional<ValueId> crossed;  // the upper bound is below the lower one, and is given
  if (Has(node, 1) && Has(node, 2)) crossed = m.Less(node.inputs[2], node.inputs[1]);
  if (Has(node, 1)) {
    const ValueId below = Not(m, m.Op("greater_equal", {x, node.inputs[1]}));
    outside = below;
    const ValueId chosen = m.Less(x, node.inputs[1]);
    result[1] = For(m, node, 1, m.Where(crossed ? And(m, chosen, Not(m, *crossed)) : chosen, wide));
  }
  if (Has(node, 2)) {
    const ValueId above = Not(m, m.Op("less_equal", {x, node.inputs[2]}));
    outside = outside ? m.Op("or", {*outside, above}) : above;
    const ValueId chosen = m.Op("greater", {x, node.inputs[2]});
    result[2] = For(m, node, 2, m.Where(crossed ? m.Op("or", {chosen, *crossed}) : chosen, wide));
  }
  result[0] = For(m, node, 0, outside ? m.Unless(*outside, wide) : wide);
  return m.Give(std::move(result));
}

// a^b: b a^(b - 1), 0 where b is 0; a^b log a, 0 where a is 0 and b is not negative.
absl::StatusOr<Ids> Pow(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId base = m.Wide(node.inputs[0]), exponent = m.Wide(node.inputs[1]);
  const ValueId wide = m.Wide(g[0]);
  Ids result(2);
  const ValueId of_base = OfBase(m, node, base, exponent, wide);
  if (of_base.valid()) result[0] = For(m, node, 0, of_base);
  if (IsFloat(m.TypeOf(exponent))) {
    const ValueId own = m.To(exponent, m.TypeOf(base));
    result[1] = For(m, node, 1, OfExponent(m, base, own, wide));
  }
  return m.Give(std::move(result));
}

// By the output, which is above 0 where the input is: the input need not be kept.
absl::StatusOr<Ids> Relu(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId y = node.outputs[0];
  return m.Give({m.Unless(m.Op("less_equal", {y, m.Number(m.TypeOf(y), 0)}), g[0])});
}

absl::StatusOr<Ids> LeakyRelu(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0], wide = m.Wide(g[0]);
  const ValueId above = m.Op("greater", {x, m.Number(m.TypeOf(x), 0)});
  const ValueId slope = m.Number(m.TypeOf(wide), FloatAttr(node, "alpha"));
  return m.Give({For(m, node, 0, m.Where(above, wide, m.Mul(wide, slope)))});
}

absl::StatusOr<Ids> Prelu(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = node.inputs[0], wide = m.Wide(g[0]);
  const ValueId above = m.Op("greater", {x, m.Number(m.TypeOf(x), 0)});
  const ValueId of_x = m.Where(above, wide, m.Mul(wide, m.Wide(node.inputs[1])));
  const ValueId of_slope = m.Unless(above, m.Mul(wide, m.Wide(x)));
  return m.Give({For(m, node, 0, of_x), For(m, node, 1, of_slope)});
}

// elu, selu and celu: above 0 a factor, below it an exponential, as at 0.
absl::StatusOr<Ids> Elu(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const ValueId x = m.Wide(node.inputs[0]), wide = m.Wide(g[0]);
  const DType type = m.TypeOf(x);
  const absl::string_view op = node.op->name;
  const double alpha = FloatAttr(node, "alpha");
  const double gamma = op == "selu" ? FloatAttr(node, "gamma") : 1;
  const ValueId zero = m.Number(type, 0);
  ValueId below = m.Op("min", {x, zero});  // where x is above, nothing overflows
  if (op == "celu") below = m.Div(below, m.Number(type, alpha));
  const ValueId slope =
      m.Mul(m.Op("exp", {below}), m.Number(type, op == "celu" ? 1 : alpha * gamma));
  const ValueId above = m.Op("greater", {x, zero});
  return m.Give({For(m, node, 0, m.Mul(wide, m.Where(above, m.Number(type, gamma), slope)))});
}

}  // namespace kiln::gradient
