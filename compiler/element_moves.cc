// SPDX-License-Identifier: Apache-2.0
#include "compiler/element_moves.h"

#include <algorithm>
#include <iterator>
#include <optional>
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

bool AreOne(const Shape& shape, size_t axes) {
  return std::all_of(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(axes),
                     [](const Dim& extent) { return extent.IsConst(1); });
}

// A gather of one index that is known, along the first axis that has more than one coordinate.
std::optional<StridedView> GatheredRow(const Graph& graph, const Node& node) {
  const ValueId from = node.inputs[0];
  const Shape& shape = graph.value(from).shape;
  const std::optional<Shape> index = ContentOf(graph.value(node.inputs[1]));
  if (!index || index->size() != 1) return std::nullopt;
  const int64_t given = IntAttr(node, "axis");
  const auto axis = static_cast<size_t>(given < 0 ? given + std::ssize(shape) : given);
  const std::optional<int64_t> at = (*index)[0].constant(), extent = shape[axis].constant();
  if (!at || !extent || *extent == 0 || !AreOne(shape, axis)) return std::nullopt;
  // As kernels have it: negative ones count from the end, and it is clamped.
  const int64_t row = std::clamp<int64_t>(*at < 0 ? *at + *extent : *at, 0, *extent - 1);
  const Shape& made = graph.value(node.outputs.front()).shape;
  return StridedView{from, RowMajor(shape)[axis] * Dim(row), made, RowMajor(made)};
}

// What part of a value one node up the node's output is, if it is one that lies together.
std::optional<StridedView> MovedRow(const Graph& graph, const Node& node) {
  if (node.op->kind != OpKind::kIndex || node.outputs.size() != 1) return std::nullopt;
  const ValueId output = node.outputs.front();
  std::optional<StridedView> row = node.op->name == absl::string_view("gather")
                                       ? GatheredRow(graph, node)
                                       : StridedStep(graph, output);
  if (!row || row->base == output || !IsDense(*row) || !IsAligned(graph, *row) ||
      graph.value(row->base).type != graph.value(output).type)
    return std::nullopt;
  return row;
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
    std::optional<StridedView> row = MovedRow(graph_, node);
    if (!row || made.count(row->base) != 0 || of_outputs_.count(node.outputs.front()) != 0) return;
    made.insert(node.outputs.front());
    rows.push_back(*std::move(row));
  }
  if (made.size() != group.outputs.size()) return;
  for (const ValueId output : group.outputs) written_.erase(output);
  rows_.emplace(&group, std::move(rows));
}

void ElementMoves::FindConcat(const Group& group) {
  const Node& node = graph_.node(group.nodes.front());
  if (group.nodes.size() != 1 || !IsConcatOfRuns(graph_, node)) return;
  std::set<ValueId> parts;
  for (const ValueId input : node.inputs) {
    const ValueId part = ThroughViews(input);
    if (!IsWritten(part)) return;
    if (of_outputs_.count(part) == 0 && parts_.count(part) == 0) parts.insert(part);
  }
  if (!AreMostInPlace(parts.size(), node.inputs.size())) return;
  parts_.insert(parts.begin(), parts.end());
  concats_.insert(&group);
}

}  // namespace kiln
