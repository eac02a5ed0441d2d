// SPDX-License-Identifier: Apache-2.0
// A concat of all the parts that a value was cut into is that value, or a view of it.
//
// Example: concat(x[0:1], x[1:2], x[2:3]) is x; so is what the steps of a recurrent network read,
// each squeezed, once their rows are one product's again (batch_skinny_gemms).
#include <optional>
#include <vector>

#include "fusion/node_reads.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/infer.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Where a slice with steps of one begins; nothing for other nodes.
std::optional<Shape> Begin(const Graph& graph, const Node* node) {
  if (node == nullptr || !Is(*node, "slice")) return std::nullopt;
  const absl::StatusOr<IndexMap> map = node->op->index(graph, *node, 0);
  if (!map.ok() || map->view || map->pieces.size() != 1) return std::nullopt;
  Shape begin;
  for (size_t k = 0; k < map->pieces[0].axes.size(); ++k) {
    const IndexAxis& axis = map->pieces[0].axes[k];
    const bool along = axis.load_input < 0 && axis.out_axis == static_cast<int>(k);
    if (!along || !axis.coef.IsConst(1) || axis.div != 1) return std::nullopt;
    begin.push_back(axis.offset);
  }
  return begin;
}

// If `part` is `value` from `from` on along `axis`, and all of it along the others: where it ends.
std::optional<Dim> EndAlong(const Graph& graph, ValueId part, ValueId value, size_t axis,
                            const Dim& from) {
  const Node* const node = Producer(graph, part);
  const std::optional<Shape> begin = Begin(graph, node);
  if (!begin || node->inputs[0] != value || !((*begin)[axis] == from)) return std::nullopt;
  const Shape &own = graph.value(part).shape, &all = graph.value(value).shape;
  for (size_t k = 0; k < own.size(); ++k) {
    if (k != axis && !(own[k] == all[k])) return std::nullopt;
  }
  return from + own[axis];
}

// What the parts, seen without their views, are cut from along `axis`, and all of it.
Found CutFrom(const Graph& graph, const std::vector<ValueId>& parts, size_t axis) {
  const Node* const first = Producer(graph, parts[0]);
  if (!Begin(graph, first) || axis >= graph.value(parts[0]).shape.size()) return std::nullopt;
  const ValueId value = first->inputs[0];
  Dim end = 0;
  for (const ValueId part : parts) {
    const std::optional<Dim> next = EndAlong(graph, part, value, axis, end);
    if (!next) return std::nullopt;
    end = *next;
  }
  return end == graph.value(value).shape[axis] ? Found(value) : std::nullopt;
}

// The first axis that has more than one element in the value; all before it have one.
size_t Leading(const Shape& shape, const Shape& whole) {
  size_t axis = 0;
  while (axis < shape.size() && shape[axis].IsConst(1) && whole[axis].IsConst(1)) ++axis;
  return axis;
}

Found Join(Graph& graph, const Node& node, const PassContext&) {
  if (!Is(node, "concat") || node.inputs.size() < 2) return std::nullopt;
  const Shape shape = graph.value(node.outputs[0]).shape;
  const auto axis = static_cast<size_t>(*NormalAxis(IntAttr(node, "axis"), shape.size()));
  if (const Found value = CutFrom(graph, node.inputs, axis)) return value;
  // Parts one after the other in memory, as their concat is: whatever their shapes are.
  for (size_t k = 0; k < axis; ++k) {
    if (!shape[k].IsConst(1)) return std::nullopt;
  }
  std::vector<ValueId> parts = node.inputs;
  for (ValueId& part : parts) {
    while (const std::optional<ValueId> source = ViewSource(graph, part)) part = *source;
  }
  const Node* const first = Producer(graph, parts[0]);
  if (first == nullptr || !Is(*first, "slice")) return std::nullopt;
  const size_t leading = Leading(graph.value(parts[0]).shape, graph.value(first->inputs[0]).shape);
  const Found value = CutFrom(graph, parts, leading);
  return value ? Made(graph, "reshape", {*value}, {{"shape", DimsValue(shape)}}, node.name)
               : std::nullopt;
}

constexpr Rule kConcatOfSplitsRules[] = {Join};

}  // namespace

absl::StatusOr<bool> ConcatOfSplits(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kConcatOfSplitsRules, context);
}

}  // namespace kiln
