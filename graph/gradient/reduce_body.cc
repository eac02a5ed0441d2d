// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions, from their ReduceRule: out = after(reduce op over axes (before(x))).
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/bodies.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/scalar_rules.h"
#include "graph/infer.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

struct Reduction {
  const ReduceRule& rule;
  ValueId x, y, g;  // x and g in the compute type; g with axes of extent 1 for those reduced
  std::vector<int> axes;
  bool keeps;  // y has these axes, too
  Ints Axes() const { return {axes.begin(), axes.end()}; }
};

ValueId WithAxes(Nodes& m, const Reduction& r, ValueId result) {
  return r.keeps ? result : m.Unsqueeze(result, r.Axes());
}

// How many elements one result has, as a value.
ValueId Count(Nodes& m, const Reduction& r) {
  const Shape shape = m.ShapeOf(r.x);
  const DType type = m.TypeOf(r.x);
  Dim numbers = 1;
  std::optional<ValueId> count;
  for (const int axis : r.axes) {
    const auto at = static_cast<size_t>(axis);
    if (at < shape.size() && shape[at].constant()) {
      numbers = numbers * shape[at];
      continue;
    }
    const ValueId extent = m.Extent(r.x, at, type);
    count = count ? m.Mul(*count, extent) : extent;
  }
  const ValueId rest = m.Number(type, static_cast<double>(numbers.constant().value_or(1)));
  if (!count) return rest;
  return numbers.IsConst(1) ? *count : m.Mul(*count, rest);
}

// The cotangent of what the reduction gives before `after`.
absl::StatusOr<ValueId> BeforeAfter(Nodes& m, const Reduction& r) {
  if (r.rule.after == nullptr) return r.g;
  ScalarExpr expr;
  const auto read = [&](int32_t k) { return Read(expr, m.TypeOf(r.x), ReadSource::kInput, k, {}); };
  const Ex result = read(0), count = read(1), g = read(2), y = read(3);
  expr.set_root(r.rule.after(result, count).id);
  std::vector<std::optional<Ex>> parts = Reverse(expr, g, y, 2);
  parts.resize(1);
  bool needs_result = false;
  const auto value = [&](int32_t k) {
    needs_result = needs_result || k == 0;
    return k == 1 ? Count(m, r) : k == 2 ? r.g : WithAxes(m, r, m.Wide(r.y));
  };
  KILN_ASSIGN_OR_RETURN(const Ids made, Emit(m.builder(), expr, parts, value));
  if (!needs_result) return made[0];
  return absl::UnimplementedError("needs the result before its last step; give the record a rule");
}

absl::StatusOr<ValueId> BehindBefore(Nodes& m, const Reduction& r, ValueId elements) {
  if (r.rule.before == nullptr) return elements;
  ScalarExpr expr;
  const DType type = m.TypeOf(r.x);
  const Ex x = Read(expr, type, ReadSource::kInput, 0, {});
  const Ex g = Read(expr, type, ReadSource::kInput, 1, {});
  expr.set_root(r.rule.before(x).id);
  const std::vector<std::optional<Ex>> parts = Reverse(expr, g, std::nullopt, 1);
  const auto value = [&](int32_t k) { return k == 0 ? r.x : elements; };
  KILN_ASSIGN_OR_RETURN(const Ids made, Emit(m.builder(), expr, parts, value));
  return made[0];
}

// Of a maximum or minimum: in equal parts to all elements that are it.
ValueId AmongExtrema(Nodes& m, const Reduction& r, ValueId g) {
  const ValueId is_it = m.Equal(r.x, WithAxes(m, r, m.Wide(r.y)));
  const ValueId count = m.Sum(m.To(is_it, m.TypeOf(r.x)), r.Axes(), true);
  return m.Where(is_it, m.Div(g, count));
}

ValueId RunningProduct(Nodes& m, ValueId x, int axis, bool reverse) {
  return m.Op("cumulative", {x},
              {{"axis", int64_t{axis}},
               {"product", int64_t{1}},
               {"exclusive", int64_t{1}},
               {"reverse", int64_t{reverse ? 1 : 0}}});
}

// Of a product: that of all others, which may be 0; an axis at a time.
ValueId OfOthers(Nodes& m, const Reduction& r, ValueId g) {
  ValueId x = r.x;
  Ids before;  // before each axis is reduced
  for (size_t i = r.axes.size(); i-- > 0;) {
    before.push_back(x);
    x = m.Op("reduce_prod", {x}, {{"axes", Ints{r.axes[i]}}});
  }
  for (const int axis : r.axes) {
    const ValueId from = before.back();
    before.pop_back();
    g = m.Mul(g, m.Mul(RunningProduct(m, from, axis, false), RunningProduct(m, from, axis, true)));
  }
  return g;
}

absl::StatusOr<Reduction> ReductionOf(Nodes& m, const Node& node, ValueId g) {
  const ValueId x = node.inputs[0];
  KILN_ASSIGN_OR_RETURN(std::vector<int> axes,
                        NormalAxes(IntsAttr(node, "axes"), m.RankOf(x), true));
  Reduction r{*node.op->reduce, m.Wide(x),       node.outputs[0],
              m.Wide(g),        std::move(axes), IntAttr(node, "keepdims") != 0};
  r.g = WithAxes(m, r, r.g);
  return r;
}

// The node that makes `value`, if it is of that op.
const Node* MadeBy(const Graph& graph, ValueId value, absl::string_view op) {
  const NodeId producer = graph.value(value).producer;
  return producer.v >= 0 && graph.node(producer).op->name == op ? &graph.node(producer) : nullptr;
}

}  // namespace

std::optional<Variance> VarianceOf(const Graph& graph, const Node& node) {
  if (node.op->name != absl::string_view("reduce_mean")) return std::nullopt;
  const Node* square = MadeBy(graph, node.inputs[0], "mul");
  if (square == nullptr || square->inputs[0] != square->inputs[1]) return std::nullopt;
  const Node* difference = MadeBy(graph, square->inputs[0], "sub");
  if (difference == nullptr) return std::nullopt;
  const Node* mean = MadeBy(graph, difference->inputs[1], "reduce_mean");
  if (mean == nullptr || mean->inputs[0] != difference->inputs[0] ||
      IntAttr(*mean, "keepdims") == 0)
    return std::nullopt;
  const Value& x = graph.value(mean->inputs[0]);
  const auto axes = NormalAxes(IntsAttr(node, "axes"), x.shape.size(), true);
  const auto others = NormalAxes(IntsAttr(*mean, "axes"), x.shape.size(), true);
  // Differences that are rounded to 16 bits do not sum to 0.
  if (!axes.ok() || !others.ok() || *axes != *others || SizeOf(x.type) <= 2) return std::nullopt;
  return Variance{mean->inputs[0], mean->outputs[0], difference->outputs[0], square->outputs[0]};
}

absl::StatusOr<ValueId> VarianceCotangent(GraphBuilder& b, const Node& node,
                                          const Variance& variance, ValueId g) {
  Nodes m(b);
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(m, node, g));
  KILN_ASSIGN_OR_RETURN(const ValueId share, BeforeAfter(m, r));  // of each square
  const ValueId slope = m.Mul(share, m.Number(m.TypeOf(share), 2));
  const ValueId part = m.Mul(variance.difference, slope);
  KILN_RETURN_IF_ERROR(b.status());
  return part;
}

absl::StatusOr<Ids> ReduceCotangents(GraphBuilder& b, const Node& node, ValueId g) {
  Nodes m(b);
  const ValueId x = node.inputs[0];
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(m, node, g));
  KILN_ASSIGN_OR_RETURN(ValueId part, BeforeAfter(m, r));
  switch (r.rule.op) {
    case ReduceOp::kAdd:
      break;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      part = AmongExtrema(m, r, part);
      break;
    case ReduceOp::kMul:
      part = OfOthers(m, r, part);
      break;
    default:
      return absl::UnimplementedError("a reduction of bits");
  }
  KILN_ASSIGN_OR_RETURN(part, BehindBefore(m, r, part));
  part = m.Expand(part, m.ShapeOf(x));
  return m.Give({m.To(part, m.TypeOf(x))});
}

}  // namespace kiln::gradient
