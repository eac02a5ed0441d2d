// SPDX-License-Identifier: Apache-2.0
#include "fusion/group_axes.h"

#include <algorithm>

#include "base/status_macros.h"

namespace kiln {
namespace {

using Kind = ReadAxis::Kind;

bool Distinct(Atoms atoms) {
  std::sort(atoms.begin(), atoms.end());
  return std::adjacent_find(atoms.begin(), atoms.end()) == atoms.end();
}

}  // namespace

Atoms Flatten(const std::vector<Atoms>& axes) {
  Atoms flat;
  for (const Atoms& axis : axes) flat.insert(flat.end(), axis.begin(), axis.end());
  return flat;
}

absl::StatusOr<GroupAxes> GroupAxes::Make(const Graph& graph, const std::vector<NodeId>& nodes,
                                          const std::vector<ValueId>& outputs) {
  GroupAxes group(graph);
  group.nodes_.insert(nodes.begin(), nodes.end());
  for (const ValueId output : outputs) KILN_RETURN_IF_ERROR(group.Visit(output));
  for (const ValueId view : group.view_order_) KILN_RETURN_IF_ERROR(group.ConstrainView(view));
  for (const ValueId value : group.order_) KILN_RETURN_IF_ERROR(group.Constrain(value));
  if (!group.Consistent()) {
    return absl::UnimplementedError("a value would be read along one dim in two of its axes");
  }
  group.ShareInputs();
  group.ShareOutputs(outputs);
  group.ShareReduced(outputs);
  return group;
}

// Enters `value` and what it reads inside the group, sources first.
absl::Status GroupAxes::Visit(ValueId value) {
  if (Computes(value)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(NodeReads reads, ReadsOf(*graph_, value));
  const NodeReads& kept = reads_.emplace(value, std::move(reads)).first->second;
  for (const NodeRead& read : kept.reads) {
    if (!read.value.valid()) continue;
    ValueId source = read.value;
    if (EnterViews(source)) {
      while (views_.count(source) != 0) source = views_.at(source);
      if (graph_->node(graph_->value(source).producer).op->kind == OpKind::kScatter)
        return absl::UnimplementedError("sums are known when all has been added");
      KILN_RETURN_IF_ERROR(Visit(source));
    }
  }
  order_.push_back(value);
  AddAxes(value);
  return absl::OkStatus();
}

// True if `value` comes, through views or at once, from a node of the group; the views on the way
// are entered then.
bool GroupAxes::EnterViews(ValueId value) {
  if (Inside(value)) return true;
  const NodeId producer = graph_->value(value).producer;
  if (producer.v < 0) return false;
  const std::optional<ValueId> source = ViewSource(*graph_, value);
  if (!source) return nodes_.count(producer) != 0;
  if (!EnterViews(*source)) return false;
  views_[value] = *source;
  view_order_.push_back(value);
  AddAxes(value);
  return true;
}

void GroupAxes::AddAxes(ValueId value) {
  AxisList& axes = axes_[value];
  for (const Dim& extent : LoopShape(*graph_, value)) axes.push_back(table_.New(extent));
}

absl::Status GroupAxes::ConstrainView(ValueId view) {
  return table_.Unify(Flatten(axes_.at(views_.at(view))), Flatten(axes_.at(view)));
}

absl::Status GroupAxes::Constrain(ValueId value) {
  const AxisList& out = axes_.at(value);
  const std::vector<NodeRead>& reads = reads_.at(value).reads;
  for (size_t k = 0; k < reads.size(); ++k) {
    const NodeRead& read = reads[k];
    AxisList& mine = read_axes_[{value, static_cast<int>(k)}];
    if (!read.value.valid()) continue;
    const Shape& shape = graph_->value(read.value).shape;
    for (size_t axis = 0; axis < read.axes.size(); ++axis) {
      const bool runs =
          read.axes[axis].kind == Kind::kSame || read.axes[axis].kind == Kind::kReduced;
      if (Inside(read.value)) {
        mine.push_back(axes_.at(read.value)[axis]);
      } else {
        mine.push_back(runs ? table_.New(shape[axis]) : Atoms{});
      }
      if (read.axes[axis].kind != Kind::kSame) continue;
      KILN_RETURN_IF_ERROR(
          table_.Unify(out[static_cast<size_t>(read.axes[axis].out_axis)], mine.back()));
    }
  }
  return absl::OkStatus();
}

// Makes reads of one outside value run together. Axes that a read does not run along, as one that
// it finds places on, tie nothing: the first read of each such kind stands for it.
void GroupAxes::ShareInputs() {
  std::map<ValueId, std::vector<const AxisList*>> firsts;
  const auto same_kind = [](const AxisList& a, const AxisList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Atoms& x, const Atoms& y) { return x.empty() == y.empty(); });
  };
  for (const ValueId value : order_) {
    const std::vector<NodeRead>& reads = reads_.at(value).reads;
    for (size_t k = 0; k < reads.size(); ++k) {
      if (!reads[k].value.valid() || Inside(reads[k].value)) continue;
      const AxisList& mine = read_axes_.at({value, static_cast<int>(k)});
      std::vector<const AxisList*>& known = firsts[reads[k].value];
      bool added = true;
      for (const AxisList* first : known) {
        Share(*first, mine);
        added = added && !same_kind(*first, mine);
      }
      if (added) known.push_back(&mine);
    }
  }
}

// Likewise for outputs of one shape that nothing ties together, such as the parts of a split.
void GroupAxes::ShareOutputs(const std::vector<ValueId>& outputs) {
  for (const ValueId output : outputs) {
    const bool same_shape = graph_->value(output).shape == graph_->value(outputs[0]).shape;
    if (same_shape && Axes(output) != Axes(outputs[0]))
      Share(axes_.at(outputs[0]), axes_.at(output));
  }
}

// Likewise for outputs that have a dim of their own and the shape of what a reduction reduces, such
// as its result for each of those elements again.
void GroupAxes::ShareReduced(const std::vector<ValueId>& outputs) {
  for (const ValueId value : order_) {
    const std::vector<NodeRead>& reads = reads_.at(value).reads;
    const bool reduces = !reads.empty() && std::any_of(reads[0].axes.begin(), reads[0].axes.end(),
                                                       [](const ReadAxis& axis) {
                                                         return axis.kind == Kind::kReduced;
                                                       });
    if (!reduces) continue;
    const AxisList& operand = read_axes_.at({value, 0});
    for (const ValueId output : outputs) {
      if (!(graph_->value(output).shape == graph_->value(reads[0].value).shape)) continue;
      const Atoms have = Flatten(Leaves(operand)), other = Flatten(Axes(output));
      const bool tied = std::all_of(other.begin(), other.end(), [&](Atom atom) {
        return std::find(have.begin(), have.end(), atom) != have.end();
      });
      if (!tied) Share(operand, axes_.at(output));
    }
  }
}

// Joins axis by axis, unless some value's axes would no longer be distinct.
void GroupAxes::Share(const AxisList& a, const AxisList& b) {
  if (Leaves(a) == Leaves(b)) return;
  const AxisTable before = table_;
  bool ok = true;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (!a[axis].empty() && !b[axis].empty()) ok = ok && table_.Unify(a[axis], b[axis]).ok();
  }
  if (!ok || !Consistent()) table_ = before;
}

bool GroupAxes::Consistent() const {
  for (const auto& [value, axes] : axes_) {
    if (!Distinct(Flatten(Leaves(axes)))) return false;
  }
  for (const auto& [read, axes] : read_axes_) {
    if (!Distinct(Flatten(Leaves(axes)))) return false;
  }
  return true;
}

std::vector<Atoms> GroupAxes::Leaves(const AxisList& axes) const {
  std::vector<Atoms> leaves;
  for (const Atoms& axis : axes) leaves.push_back(table_.Leaves(axis));
  return leaves;
}

}  // namespace kiln
