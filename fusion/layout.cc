// SPDX-License-Identifier: Apache-2.0
// Channels last: regions around convolutions whose activations lie as [N, D..., C].
//
// Convolutions are 1.5 to 5 times as fast there, with post-ops for nothing.
// Every convolution of f32 or bytes is put between two transposes, which its library call takes
// along as strides (library_call.h). Nodes that work in any order follow if that saves some:
// each connected set of them moves unless the values on its border with convolutions are smaller
// than those on its border with everything else, graph inputs and outputs included. What moves is
// written anew with permuted attributes.
//
//   x -> conv -> relu -> conv -> y     x -> T -> (T' conv T) -> relu -> (T' conv T) -> T' -> y
//
// Runs once, after all other passes.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/status_macros.h"
#include "fusion/node_analysis.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "fusion/strided_view.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

bool IsConvOfBytes(const Node& node) {
  return Is(node, "conv_integer") || Is(node, "qlinear_conv");
}
// Of two activations; its result is a weight, which stays as it is.
bool IsConvBackward(const Node& node) { return Is(node, "conv_backward_weights"); }
bool IsConv(const Node& node) {
  return Is(node, "conv") || Is(node, "conv_transpose") || IsConvOfBytes(node) ||
         IsConvBackward(node);
}
bool IsPool(const Node& node) {
  return Is(node, "max_pool") || Is(node, "average_pool") || Is(node, "max_pool_backward") ||
         Is(node, "average_pool_backward");
}
// Drops or adds axes of one element.
bool ChangesRank(const Node& node) { return Is(node, "squeeze") || Is(node, "unsqueeze"); }

std::vector<int64_t> ToLast(size_t rank) {
  std::vector<int64_t> perm = {0};
  for (size_t axis = 2; axis < rank; ++axis) perm.push_back(static_cast<int64_t>(axis));
  perm.push_back(1);
  return perm;
}
std::vector<int64_t> ToFirst(size_t rank) {
  std::vector<int64_t> perm = {0, static_cast<int64_t>(rank) - 1};
  for (size_t axis = 1; axis + 1 < rank; ++axis) perm.push_back(static_cast<int64_t>(axis));
  return perm;
}
// Where an axis, counted from either end, is after ToLast.
int64_t MovedAxis(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis == 1) return static_cast<int64_t>(rank) - 1;
  return axis > 1 ? axis - 1 : axis;
}

// A transpose that moves nothing: the channels, or everything behind them, is one element.
bool IsFree(const Shape& shape) {
  return shape[1].IsConst(1) ||
         std::all_of(shape.begin() + 2, shape.end(), [](const Dim& d) { return d.IsConst(1); });
}

enum class Place : uint8_t {
  kFixed,   // stays
  kAnchor,  // a convolution: channels last pays there
  kFree,    // may follow
};

// Attributes of a free node for permuted axes; nothing if it cannot follow.
std::optional<Attrs> MovedAttrs(const Node& node, size_t rank) {
  Attrs attrs = node.attrs;
  const auto move_axis = [&] {
    attrs["axis"] = MovedAxis(IntAttr(node, "axis"), rank);
    return std::optional(attrs);
  };
  const auto permuted = [&](const Shape& list) {
    Shape moved;
    for (size_t part = 0; part < list.size(); part += rank) {
      for (const int64_t axis : ToLast(rank))
        moved.push_back(list[part + static_cast<size_t>(axis)]);
    }
    return moved;
  };
  const auto move_axes = [&](const char* name) {
    Shape axes;
    for (const Dim& axis : DimsAttr(node, name)) {
      if (!axis.constant()) return false;
      axes.push_back(MovedAxis(*axis.constant(), rank));
    }
    attrs[name] = DimsValue(axes);
    return true;
  };
  if (node.op->kind == OpKind::kScalar) return attrs;
  if (ChangesRank(node)) {
    // Behind the channels alone, of which no fewer than three axes stay.
    if (node.inputs.size() > 1 || DimsAttr(node, "axes").empty()) return std::nullopt;
    Shape axes;
    for (const Dim& axis : DimsAttr(node, "axes")) {
      if (!axis.constant()) return std::nullopt;
      axes.push_back(MovedAxis(*axis.constant(), rank));
      if (*axes.back().constant() < 1 || axes.back().IsConst(static_cast<int64_t>(rank) - 1))
        return std::nullopt;
    }
    if (axes.size() + 3 > rank) return std::nullopt;
    attrs["axes"] = DimsValue(axes);
    return attrs;
  }
  if (IsPool(node)) return attrs;
  if (node.op->kind == OpKind::kReduce) {
    std::vector<int64_t> axes = IntsAttr(node, "axes");
    if (axes.empty()) return attrs;
    std::vector<bool> kept(rank, true);
    for (int64_t& axis : axes) {
      kept[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)] = false;
      axis = MovedAxis(axis, rank);
    }
    std::sort(axes.begin(), axes.end());
    attrs["axes"] = std::move(axes);
    const bool spatial = std::find(kept.begin() + 2, kept.end(), true) != kept.end();
    if (IntAttr(node, "keepdims") == 0 && kept[1] && spatial) return std::nullopt;
    return attrs;
  }
  const bool alone =
      node.inputs.size() <= 1 || std::none_of(node.inputs.begin() + 1, node.inputs.end(),
                                              [](ValueId input) { return input.valid(); });
  if (Is(node, "concat")) return move_axis();
  if (Is(node, "slice") && alone && HasAttr(node, "axes")) {
    return move_axes("axes") ? std::optional(attrs) : std::nullopt;
  }
  if (Is(node, "pad") && HasAttr(node, "pads") &&
      (node.inputs.size() < 2 || !node.inputs[1].valid())) {
    if (HasAttr(node, "axes")) return move_axes("axes") ? std::optional(attrs) : std::nullopt;
    const Shape pads = DimsAttr(node, "pads");
    if (pads.size() != 2 * rank) return std::nullopt;
    attrs["pads"] = DimsValue(permuted(pads));
    return attrs;
  }
  if (Is(node, "upsample")) {
    const std::vector<int64_t> scales = IntsAttr(node, "scales");
    if (scales.size() != rank) return std::nullopt;
    std::vector<int64_t> moved;
    for (const int64_t axis : ToLast(rank)) moved.push_back(scales[static_cast<size_t>(axis)]);
    attrs["scales"] = std::move(moved);
    return attrs;
  }
  return std::nullopt;
}

class Mover {
 public:
  explicit Mover(Graph& graph) : graph_(graph), users_(graph.Users()) {}

  absl::StatusOr<bool> Run() {
    count_ = graph_.nodes().size();
    bool any = false;
    for (size_t i = 0; i < count_; ++i) {
      places_.push_back(PlaceOf(graph_.nodes()[i]));
      any = any || places_.back() == Place::kAnchor;
    }
    if (!any) return false;
    Connect();
    Choose();
    if (std::find(moves_.begin(), moves_.end(), true) == moves_.end()) return false;
    for (size_t i = 0; i < count_; ++i) {
      if (moves_[i]) KILN_RETURN_IF_ERROR(Move(graph_.nodes()[i]));
    }
    for (const auto& [value, last] : last_) {
      // Graph inputs and what stays keep their own layout; a twin of theirs is used by name.
      const NodeId producer = graph_.value(value).producer;
      const bool moved = producer.v >= 0 && static_cast<size_t>(producer.v) < count_ &&
                         moves_[static_cast<size_t>(producer.v)];
      if (moved) graph_.ReplaceUses(value, Permuted(last, ToFirst(Rank(value))));
    }
    KILN_RETURN_IF_ERROR(builder_.status());
    KILN_RETURN_IF_ERROR(graph_.Sort());
    graph_.RemoveDead();
    return true;
  }

 private:
  size_t Rank(ValueId value) const { return graph_.value(value).shape.size(); }

  // The rank of the activations that the node works on; 0 if it has none.
  size_t RankOf(const Node& node) const {
    if (node.op->kind == OpKind::kReduce || Is(node, "squeeze")) return Rank(node.inputs[0]);
    return node.outputs.empty() ? 0 : Rank(node.outputs[0]);
  }

  Place PlaceOf(const Node& node) const {
    const size_t rank = RankOf(node);
    if (rank < 3 || rank > 5 || node.outputs.size() != 1) return Place::kFixed;
    if (IsConv(node)) {
      const bool f32 = graph_.value(node.outputs[0]).type == DType::kF32;
      return f32 || IsConvOfBytes(node) ? Place::kAnchor : Place::kFixed;
    }
    return MovedAttrs(node, rank) ? Place::kFree : Place::kFixed;
  }

  // Whether the value is a transpose of one with channels last.
  bool IsSeenFirst(ValueId value) const {
    const StridedView view = StridedStep(graph_, value);
    return view.base != value && view.strides.size() > 1 && view.strides[1].IsConst(1);
  }

  // Activations that the node reads: of its rank, and not constant.
  std::vector<ValueId> Activations(const Node& node) const {
    std::vector<ValueId> read;
    const bool first = (IsConv(node) && !IsConvBackward(node)) || ChangesRank(node);
    for (const ValueId input : node.inputs) {
      const bool activation = input.valid() && !graph_.value(input).constant &&
                              (Rank(input) == RankOf(node) || ChangesRank(node));
      if (activation) read.push_back(input);
      if (first) break;
    }
    return read;
  }

  // Free nodes that hand an activation on to each other stand or move together.
  void Connect() {
    set_.resize(count_);
    std::iota(set_.begin(), set_.end(), size_t{0});
    for (size_t i = 0; i < count_; ++i) {
      if (places_[i] != Place::kFree) continue;
      for (const ValueId input : Activations(graph_.nodes()[i])) {
        const NodeId producer = graph_.value(input).producer;
        if (producer.v >= 0 && places_[static_cast<size_t>(producer.v)] == Place::kFree)
          set_[Root(i)] = Root(static_cast<size_t>(producer.v));
      }
    }
  }

  size_t Root(size_t i) {
    while (set_[i] != i) i = set_[i] = set_[set_[i]];
    return i;
  }

  // Bytes on each set's border with convolutions, and with what stays.
  void Choose() {
    std::map<size_t, int64_t> near_anchors, near_fixed;
    const auto cost = [&](ValueId value) {
      return IsFree(graph_.value(value).shape) ? 0 : EstimatedBytes(graph_.value(value));
    };
    for (size_t i = 0; i < count_; ++i) {
      if (places_[i] != Place::kFree) continue;
      const Node& node = graph_.nodes()[i];
      const size_t set = Root(i);
      for (const ValueId input : Activations(node)) {
        const NodeId producer = graph_.value(input).producer;
        const Place from =
            producer.v < 0 ? Place::kFixed : places_[static_cast<size_t>(producer.v)];
        const bool weight = producer.v >= 0 && IsConvBackward(graph_.node(producer));
        if (from == Place::kAnchor) (weight ? near_fixed : near_anchors)[set] += cost(input);
        if (from == Place::kFixed) near_fixed[set] += cost(input);
      }
      const ValueId output = node.outputs[0];
      if (Rank(output) != RankOf(node) && !ChangesRank(node)) continue;
      bool anchor = false, fixed = graph_.IsOutput(output);
      for (const NodeId user : users_[static_cast<size_t>(output.v)]) {
        anchor = anchor || places_[static_cast<size_t>(user.v)] == Place::kAnchor;
        fixed = fixed || places_[static_cast<size_t>(user.v)] == Place::kFixed;
      }
      if (anchor) near_anchors[set] += cost(output);
      if (fixed) near_fixed[set] += cost(output);
    }
    for (size_t i = 0; i < count_; ++i) {
      const int64_t saved = places_[i] == Place::kFree ? near_anchors[Root(i)] : 0;
      const bool follows = saved > 0 && saved >= near_fixed[Root(i)];
      moves_.push_back(places_[i] == Place::kAnchor || follows);
    }
    // What reads channels last already gains if it may write them so.
    for (size_t i = 0; i < count_; ++i) {
      const Node& node = graph_.nodes()[i];
      const std::vector<ValueId> read = Activations(node);
      const bool seen = !read.empty() && std::all_of(read.begin(), read.end(), [&](ValueId input) {
        return IsSeenFirst(input);
      });
      if (places_[i] != Place::kAnchor || !seen) continue;
      const std::vector<NodeId>& users = users_[static_cast<size_t>(node.outputs[0].v)];
      moves_[i] = std::any_of(users.begin(), users.end(), [&](NodeId user) {
        const auto u = static_cast<size_t>(user.v);
        return places_[u] == Place::kFree && moves_[u];
      });
    }
  }

  // `value` with permuted axes: itself seen anew where that moves nothing.
  ValueId Permuted(ValueId value, const std::vector<int64_t>& perm) {
    const Shape shape = graph_.value(value).shape;
    Shape moved;
    for (const int64_t axis : perm) moved.push_back(shape[static_cast<size_t>(axis)]);
    if (graph_.value(value).constant) return PermutedConstant(*graph_.value(value).constant, perm);
    const bool last = perm == ToLast(shape.size());
    if (IsFree(last ? shape : moved)) return WithShape(value, moved);
    return builder_.Op("transpose", {value}, {{"perm", perm}});
  }

  ValueId PermutedConstant(const Tensor& tensor, const std::vector<int64_t>& perm) {
    const Tensor dense = Dense(tensor);
    std::vector<int64_t> shape, strides;
    const std::vector<int64_t> all = DenseStrides(dense.shape());
    for (const int64_t axis : perm) {
      shape.push_back(dense.shape()[static_cast<size_t>(axis)]);
      strides.push_back(all[static_cast<size_t>(axis)]);
    }
    const Tensor view = Tensor::View(dense.data(), dense.dtype(), shape, strides, dense.owner());
    return builder_.Constant(view.Clone());
  }

  // The twin of `value` with channels last.
  ValueId Last(ValueId value) {
    const auto found = last_.find(value);
    if (found != last_.end()) return found->second;
    const ValueId twin = Permuted(value, ToLast(Rank(value)));
    last_.emplace(value, twin);
    return twin;
  }

  ValueId WithShape(ValueId value, const Shape& shape) {
    if (const std::optional<Tensor>& constant = graph_.value(value).constant) {
      const Tensor dense = Dense(*constant);
      return builder_.Constant(
          Tensor::View(dense.data(), dense.dtype(), *Constant(shape), {}, dense.owner()));
    }
    Attrs attrs = {{"shape", DimsValue(shape)}};
    for (const Dim& dim : shape) {
      if (dim.IsConst(0)) attrs["allowzero"] = int64_t{1};
    }
    return builder_.Op("reshape", {value}, std::move(attrs));
  }

  // An operand of lower rank, as broadcasting sees it, with channels last.
  ValueId Operand(ValueId value, size_t rank) {
    Shape shape = graph_.value(value).shape;
    if (Product(shape).IsConst(1) && shape.size() <= 1) return value;
    if (shape.size() < rank) {
      shape.insert(shape.begin(), rank - shape.size(), Dim(1));
      value = WithShape(value, shape);
      if (!value.valid()) return value;
    }
    return Last(value);
  }

  absl::Status Move(const Node& moved) {
    const Node node = moved;  // a copy: nodes are added
    const size_t rank = RankOf(node);
    std::vector<ValueId> inputs = node.inputs;
    const ValueId output = node.outputs[0];
    const bool anchor = IsConv(node);
    if (anchor || IsPool(node)) {
      // Its operands stay as they are written, between transposes.
      for (size_t k = 0; k < inputs.size(); ++k) {
        const bool activation = k == 0 || IsConvBackward(node) || IsPool(node);
        if (activation && (!anchor || !IsSeenFirst(inputs[k])))
          inputs[k] = Permuted(Last(inputs[k]), ToFirst(rank));
      }
      const ValueId result = builder_.Op(node.op->name, std::move(inputs), node.attrs, node.name);
      KILN_RETURN_IF_ERROR(Annotate(builder_.status(), node.name));
      if (IsConvBackward(node)) {
        graph_.ReplaceUses(output, result);
      } else {
        last_[output] = Permuted(result, ToLast(rank));
      }
      return builder_.status();
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
      const bool element = node.op->kind == OpKind::kScalar || Is(node, "concat") || k == 0;
      if (!inputs[k].valid() || !element) continue;
      inputs[k] = ChangesRank(node) ? Last(inputs[k]) : Operand(inputs[k], rank);
    }
    const std::optional<Attrs> attrs = MovedAttrs(node, rank);
    const ValueId result = builder_.Op(node.op->name, std::move(inputs), *attrs, node.name);
    KILN_RETURN_IF_ERROR(Annotate(builder_.status(), node.name));
    if (Rank(output) == rank || ChangesRank(node)) {
      last_[output] = result;
    } else {
      graph_.ReplaceUses(output, result);
    }
    return absl::OkStatus();
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>> users_;
  GraphBuilder builder_{&graph_};
  size_t count_ = 0;  // nodes there were
  std::vector<Place> places_;
  std::vector<size_t> set_;  // union-find over free nodes
  std::vector<bool> moves_;
  std::map<ValueId, ValueId> last_;  // value -> its twin with channels last
};

// Moves that cancel out, with reshapes between them, become one reshape. Not those in front of
// convolutions and pools: they are strides there.
bool JoinMoves(Graph& graph) {
  bool changed = false;
  const std::vector<std::vector<NodeId>> users = graph.Users();
  const auto windows = [&](NodeId id) {
    const Node& node = graph.node(id);
    return IsConv(node) || IsPool(node);
  };
  const size_t count = graph.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    const Node node = graph.nodes()[i];
    if (!Is(node, "transpose")) continue;
    const ValueId result = node.outputs[0];
    const std::vector<NodeId>& readers = users[static_cast<size_t>(result.v)];
    if (!readers.empty() && std::all_of(readers.begin(), readers.end(), windows)) continue;
    const StridedView view = StridedOf(graph, result);
    const bool whole = view.base != node.inputs[0] && IsDense(view) && view.offset.IsConst(0) &&
                       Product(graph.value(view.base).shape) == Product(view.shape);
    if (!whole || view.base == result) continue;
    GraphBuilder b(&graph);
    ValueId seen = view.base;
    if (!(graph.value(seen).shape == view.shape))
      seen = b.Op("reshape", {seen}, {{"shape", DimsValue(view.shape)}}, node.name);
    if (!b.status().ok() || !(graph.value(seen).shape == view.shape)) continue;
    if (graph.value(seen).producer.v < 0 && graph.IsOutput(result)) continue;
    graph.ReplaceUses(result, seen);
    changed = true;
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> ChannelsLast(Graph& graph, const PassContext&) {
  KILN_ASSIGN_OR_RETURN(bool changed, Mover(graph).Run());
  if (JoinMoves(graph)) {
    KILN_RETURN_IF_ERROR(graph.Sort());
    graph.RemoveDead();
    changed = true;
  }
  return changed;
}

}  // namespace kiln
