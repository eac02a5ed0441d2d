// SPDX-License-Identifier: Apache-2.0
// Gradients of ops whose results are as large as the data say.
#include <utility>

#include "base/status_macros.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/op.h"

namespace kiln::gradient {
namespace {

// x with one axis where the node has no attribute `axis`, which is about all elements in a row.
struct Along {
  ValueId x;
  size_t axis;
};

absl::StatusOr<Along> AlongAxis(Nodes& m, const Node& node) {
  const ValueId x = node.inputs[0];
  if (!HasAttr(node, "axis")) return Along{m.Reshape(x, {Product(m.ShapeOf(x))}), 0};
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), m.RankOf(x)));
  return Along{x, static_cast<size_t>(axis)};
}

Shape Only(size_t rank, size_t axis, const Dim& extent) {
  Shape shape(rank, 0);
  shape[axis] = extent;
  return shape;
}

}  // namespace

// Chosen slices take the cotangent's slices in order; all others a slice of zeros behind them.
absl::StatusOr<Ids> Compress(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  KILN_ASSIGN_OR_RETURN(const Along along, AlongAxis(m, node));
  if (!m.ok()) return b.status();
  const size_t rank = m.RankOf(along.x);
  const ValueId chosen = m.To(node.inputs[1], DType::kI64);
  const ValueId number = m.Op("cumulative", {chosen}, {{"exclusive", int64_t{1}}});
  const ValueId slice = m.Where(node.inputs[1], number, m.Sum(chosen, {0}, true));
  const ValueId padded = m.Pad(g[0], Shape(rank, 0), Only(rank, along.axis, 1));
  const ValueId spread =
      m.Op("gather", {padded, slice}, {{"axis", static_cast<int64_t>(along.axis)}});
  if (!m.ok()) return b.status();
  // The condition may be shorter than the axis.
  const Dim missing = m.ShapeOf(along.x)[along.axis] - m.ShapeOf(node.inputs[1])[0];
  const ValueId part = m.Pad(spread, Shape(rank, 0), Only(rank, along.axis, missing));
  return m.Give({m.Reshape(part, m.ShapeOf(node.inputs[0]))});
}

// Each slice of the result goes to where it was first.
absl::StatusOr<Ids> Unique(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  KILN_ASSIGN_OR_RETURN(const Along along, AlongAxis(m, node));
  if (!m.ok()) return b.status();
  Ints perm;  // the axis first; the same permutation undone
  const auto axis = static_cast<int64_t>(along.axis);
  Ints back;
  for (int64_t i = 0; i < static_cast<int64_t>(m.RankOf(along.x)); ++i) {
    perm.push_back(i == 0 ? axis : i <= axis ? i - 1 : i);
    back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  }
  const ValueId slices = m.Transpose(m.Wide(g[0]), perm);
  Shape shape = m.ShapeOf(along.x), moved;
  for (const int64_t i : perm) moved.push_back(shape[static_cast<size_t>(i)]);
  const ValueId sums = m.Op("scatter_sum", {m.Unsqueeze(node.outputs[1], {1}), slices},
                            {{"shape", DimsValue(moved)}});
  const ValueId x = node.inputs[0];
  return m.Give({m.To(m.Reshape(m.Transpose(sums, back), m.ShapeOf(x)), m.TypeOf(x))});
}

absl::StatusOr<Ids> Unchanged(GraphBuilder& b, const Node&, std::span<const ValueId> g) {
  KILN_RETURN_IF_ERROR(b.status());
  return Ids{g[0]};
}

}  // namespace kiln::gradient
