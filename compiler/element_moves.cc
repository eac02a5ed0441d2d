// SPDX-License-Identifier: Apache-2.0
#include "compiler/element_moves.h"

#include <algorithm>
#include <utility>

#include "base/dtype.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Rows that begin elsewhere would straddle lines that whole buffers do not.
constexpr int64_t kRowAlignment = 64;  // speed

bool IsAligned(const Graph& graph, const StridedView& view) {
  const auto item = static_cast<int64_t>(SizeOf(graph.value(view.base).type));
  return view.offset.IsConst(0) ||
         (view.offset * Dim(item)).DivideExactly(Dim(kRowAlignment)).has_value();
}

// The axis along which a concat's parts lie one after the other in memory; -1: they do not.
int64_t OuterAxis(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.outputs.front()).shape;
  const int64_t given = IntAttr(node, "axis");
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(shape.size()) : given;
  const bool outer = std::all_of(shape.begin(), shape.begin() + axis,
                                 [](const Dim& extent) { return extent.IsConst(1); });
  return outer ? axis : -1;
}

}  // namespace

ElementMoves::ElementMoves(const Graph& graph, const Grouping& grouping) : graph_(graph) {
  for (const Group& group : grouping.groups) {
    if (group.kind == Group::Kind::kView) {
      const Node& node = graph.node(group.nodes.front());
      view_of_[node.outputs.front()] = node.inputs.front();
    } else {
      written_.insert(group.outputs.begin(), group.outputs.end());
    }
  }
  for (const Graph::Output& output : graph.outputs())
    of_outputs_.insert(ThroughViews(output.value));
  for (const Group& group : grouping.groups) {
    if (group.kind != Group::Kind::kKernel) continue;
    FindRows(group);
    FindConcat(group);
  }
}

ValueId ElementMoves::ThroughViews(ValueId id) const {
  for (auto it = view_of_.find(id); it != view_of_.end(); it = view_of_.find(id)) id = it->second;
  return id;
}

const std::vector<StridedView>& ElementMoves::RowsOf(const Group& group) const {
  static const std::vector<StridedView> kNone;
  const auto found = rows_.find(&group);
  return found == rows_.end() ? kNone : found->second;
}

void ElementMoves::FindRows(const Group& group) {
  std::vector<StridedView> rows;
  std::set<ValueId> made;
  for (const NodeId id : group.nodes) {
    const Node& node = graph_.node(id);
    if (node.op->kind != OpKind::kIndex || node.outputs.size() != 1) return;
    const ValueId output = node.outputs.front();
    StridedView row = StridedStep(graph_, output);
    made.insert(output);
    if (row.base == output || made.count(row.base) != 0 || of_outputs_.count(output) != 0 ||
        graph_.value(row.base).type != graph_.value(output).type || !IsDense(row) ||
        !IsAligned(graph_, row))
      return;
    rows.push_back(std::move(row));
  }
  if (made.size() != group.outputs.size()) return;
  for (const ValueId output : group.outputs) written_.erase(output);
  rows_.emplace(&group, std::move(rows));
}

void ElementMoves::FindConcat(const Group& group) {
  const Node& node = graph_.node(group.nodes.front());
  if (group.nodes.size() != 1 || node.op->name != absl::string_view("concat") ||
      OuterAxis(graph_, node) < 0)
    return;
  std::set<ValueId> parts;
  for (const ValueId input : node.inputs) {
    const ValueId part = ThroughViews(input);
    if (!IsWritten(part) || of_outputs_.count(part) != 0 || parts_.count(part) != 0 ||
        !parts.insert(part).second)
      return;
  }
  parts_.insert(parts.begin(), parts.end());
  concats_.insert(&group);
}

}  // namespace kiln
