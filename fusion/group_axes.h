// SPDX-License-Identifier: Apache-2.0
// GroupAxes: the values that a group computes, how they read each other, and which of their axes
// run together.
//
// The first half of lowering. Constraints come from the reads: axes of kind kSame are one, and a
// view's axes are its source's axes in another grouping. Reads of values from outside start with
// axes of their own, since one value may be read in two ways (x + transpose(x)); where reads of one
// value, or outputs of one shape, can run together they are made to.
#ifndef KILN_FUSION_GROUP_AXES_H_
#define KILN_FUSION_GROUP_AXES_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fusion/axes.h"
#include "fusion/node_reads.h"
#include "graph/graph.h"

namespace kiln {

class GroupAxes {
 public:
  // `nodes` and the `outputs` wanted of them. kUnimplemented if no assignment of axes exists.
  static absl::StatusOr<GroupAxes> Make(const Graph& graph, const std::vector<NodeId>& nodes,
                                        const std::vector<ValueId>& outputs);

  const Graph& graph() const { return *graph_; }
  // The values that the outputs need and nodes of the group compute, each after those it reads.
  const std::vector<ValueId>& computed() const { return order_; }
  bool Computes(ValueId value) const { return reads_.count(value) != 0; }
  const NodeReads& reads(ValueId computed) const { return reads_.at(computed); }
  // True if a read of `value` stays in the group: it is computed, or a view of a computed value.
  bool Inside(ValueId value) const { return Computes(value) || views_.count(value) != 0; }
  ValueId ViewedBy(ValueId view) const { return views_.at(view); }

  // The kernel dims of each axis of a value inside (of its LoopShape), and of read `k` of
  // `computed`, whatever its source.
  std::vector<Atoms> Axes(ValueId inside) const { return Leaves(axes_.at(inside)); }
  std::vector<Atoms> ReadAxes(ValueId computed, int k) const {
    return Leaves(read_axes_.at({computed, k}));
  }
  const Dim& extent(Atom leaf) const { return table_.extent(leaf); }

 private:
  using AxisList = std::vector<Atoms>;
  explicit GroupAxes(const Graph& graph) : graph_(&graph) {}

  absl::Status Visit(ValueId value);
  bool EnterViews(ValueId value);
  void AddAxes(ValueId value);
  absl::Status Constrain(ValueId value);
  absl::Status ConstrainView(ValueId view);
  void ShareInputs();
  void ShareOutputs(const std::vector<ValueId>& outputs);
  void ShareReduced(const std::vector<ValueId>& outputs);
  void Share(const AxisList& a, const AxisList& b);
  bool Consistent() const;
  std::vector<Atoms> Leaves(const AxisList& axes) const;

  const Graph* graph_;
  std::set<NodeId> nodes_;
  AxisTable table_;
  std::vector<ValueId> order_;
  std::vector<ValueId> view_order_;
  std::map<ValueId, NodeReads> reads_;
  std::map<ValueId, ValueId> views_;
  std::map<ValueId, AxisList> axes_;
  std::map<std::pair<ValueId, int>, AxisList> read_axes_;
};

// All atoms of all axes, in order.
Atoms Flatten(const std::vector<Atoms>& axes);

}  // namespace kiln

#endif  // KILN_FUSION_GROUP_AXES_H_
