// SPDX-License-Identifier: Apache-2.0
// Reductions over part of the channels and all that lies behind them, which group norm is made of,
// keep the shape of what they reduce: exporters write
//
//   y = reshape(x, [N, G, K * H * W])      x : [N, G * K, H, W]
//   m = reduce_sum(y, axis 2)
//   z = reshape(sub(y, m), [N, G * K, H, W])
//
// and this makes of it
//
//   m = reduce_sum(reshape(reduce_sum(x, axes 2 and 3), [N, G, K]), axis 2)
//   z = sub(x, m of every channel)
//
// so that what stands around convolutions can have its channels last (layout.cc), and meet factors
// of channels in one kernel. Everything between the two reshapes must be element-wise, or reduce
// axis 2; graphs without convolutions are left alone, whose layout never changes.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fusion/literal.h"
#include "fusion/node_reads.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// The values between a reshape that groups channels and those that undo it.
class Region {
 public:
  Region(Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId grouped)
      : graph_(graph), users_(users), y_(grouped), builder_(&graph) {}

  // True if it was rewritten.
  absl::StatusOr<bool> Run() {
    if (!FindGroups() || !Collect()) return false;
    for (const NodeId id : inside_) Rewrite(graph_.node(id));
    KILN_RETURN_IF_ERROR(builder_.status());
    for (const auto& [from, to] : replaced_) graph_.ReplaceUses(from, to);
    return true;
  }

 private:
  const Shape& ShapeOf(ValueId value) const { return graph_.value(value).shape; }

  // Whether y_ is such a reshape.
  bool FindGroups() {
    const std::optional<ValueId> source = ViewSource(graph_, y_);
    if (!source || !IsFloat(graph_.value(y_).type) || SizeOf(graph_.value(y_).type) < 4)
      return false;
    x_ = *source;
    const Shape& whole = ShapeOf(x_);
    const Shape& grouped = ShapeOf(y_);
    if (whole.size() < 3 || grouped.size() != 3 || !(whole[0] == grouped[0])) return false;
    if (!grouped[1].constant() || *grouped[1].constant() < 1) return false;
    const std::optional<Dim> width = whole[1].DivideExactly(grouped[1]);
    if (!width || width->IsConst(0)) return false;
    width_ = *width;
    return true;
  }

  bool IsFull(ValueId value) const { return ShapeOf(value) == ShapeOf(y_); }

  // One value for all elements that share a group, or for all.
  bool IsSmall(ValueId value) const {
    const Shape& shape = ShapeOf(value);
    if (shape.size() > 3) return false;
    for (size_t back = 0; back < shape.size(); ++back) {
      const Dim& dim = shape[shape.size() - 1 - back];
      if (!dim.IsConst(1) && (back == 0 || !(dim == ShapeOf(y_)[2 - back]))) return false;
    }
    return true;
  }

  // Finds all nodes that full values lead to; false if one of them cannot be rewritten.
  bool Collect() {
    std::vector<ValueId> open = {y_};
    bool reduces = false, returns = false;
    for (size_t next = 0; next < open.size(); ++next) {
      if (graph_.IsOutput(open[next])) return false;
      for (const NodeId id : users_[static_cast<size_t>(open[next].v)]) {
        if (std::find(inside_.begin(), inside_.end(), id) != inside_.end()) continue;
        inside_.push_back(id);
        const Node& node = graph_.node(id);
        if (node.outputs.size() != 1) return false;
        const ValueId output = node.outputs[0];
        if (ViewSource(graph_, output)) {
          if (!(ShapeOf(output) == ShapeOf(x_))) return false;
          returns = true;
        } else if (node.op->kind == OpKind::kReduce) {
          if (!Reduces(node)) return false;
          reduces = true;
        } else {
          if (!IsElementwise(node)) return false;
          open.push_back(output);
        }
      }
    }
    std::sort(inside_.begin(), inside_.end());  // each after those it reads
    return reduces && returns;
  }

  bool Reduces(const Node& node) const {
    const std::vector<int64_t> axes = IntsAttr(node, "axes");
    const bool plain = node.op->reduce->before == nullptr && node.op->reduce->after == nullptr;
    return axes.size() == 1 && (axes[0] == 2 || axes[0] == -1) &&
           (plain || Is(node, "reduce_mean"));
  }

  bool IsElementwise(const Node& node) const {
    if (node.op->kind != OpKind::kScalar || !IsFull(node.outputs[0])) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return !input.valid() || IsFull(input) || IsSmall(input);
    });
  }

  ValueId Reshaped(ValueId value, const Shape& shape) {
    if (!builder_.status().ok() || ShapeOf(value) == shape) return value;
    return builder_.Op("reshape", {value},
                       {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
  }

  // A full value in the shape of x_.
  ValueId Whole(ValueId value) {
    const auto found = whole_.find(value);
    return found != whole_.end() ? found->second : Reshaped(value, ShapeOf(x_));
  }

  // A small value as one for each channel.
  ValueId OfChannels(ValueId value) {
    if (Product(ShapeOf(value)).IsConst(1) && ShapeOf(value).size() <= 1) return value;
    Shape shape = ShapeOf(value);
    shape.insert(shape.begin(), 3 - shape.size(), Dim(1));
    value = Reshaped(value, shape);
    Shape channels(ShapeOf(x_).size(), Dim(1));
    channels[0] = shape[0];
    if (!shape[1].IsConst(1)) {
      channels[1] = ShapeOf(x_)[1];
      if (!width_.IsConst(1) && builder_.status().ok()) {
        shape[2] = width_;
        value = builder_.Op("expand", {value}, {{"shape", DimsValue(shape)}});
      }
    }
    return Reshaped(value, channels);
  }

  void Rewrite(const Node& inside) {
    const Node node = inside;  // a copy: nodes are added
    if (!builder_.status().ok()) return;
    const ValueId output = node.outputs[0];
    if (ViewSource(graph_, output)) {
      replaced_.emplace_back(output, Whole(node.inputs[0]));
    } else if (node.op->kind == OpKind::kReduce) {
      replaced_.emplace_back(output, Reduced(node));
    } else {
      std::vector<ValueId> inputs = node.inputs;
      for (ValueId& input : inputs) {
        if (input.valid()) input = IsFull(input) ? Whole(input) : OfChannels(input);
      }
      whole_[output] = builder_.Op(node.op->name, std::move(inputs), node.attrs, node.name);
    }
  }

  ValueId Reduced(const Node& node) {
    const Dim count = ShapeOf(y_)[2];
    const bool mean = Is(node, "reduce_mean");
    // Sums, then one division, where their number is known; else means of means.
    const char* op = mean && count.constant() ? "reduce_sum" : node.op->name;
    std::vector<int64_t> places;
    for (size_t axis = 2; axis < ShapeOf(x_).size(); ++axis)
      places.push_back(static_cast<int64_t>(axis));
    ValueId value = builder_.Op(op, {Whole(node.inputs[0])},
                                {{"axes", std::move(places)}, {"keepdims", int64_t{0}}}, node.name);
    value = Reshaped(value, {ShapeOf(y_)[0], ShapeOf(y_)[1], width_});
    value = builder_.Op(
        op, {value}, {{"axes", std::vector<int64_t>{2}}, {"keepdims", IntAttr(node, "keepdims")}},
        node.name);
    if (!mean || !count.constant()) return value;
    const ValueId number =
        builder_.Scalar(graph_.value(y_).type, static_cast<double>(*count.constant()));
    return builder_.Op("div", {value, number}, {}, node.name);
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>>& users_;
  const ValueId y_;
  GraphBuilder builder_;
  ValueId x_;
  Dim width_ = 1;                     // channels of a group
  std::vector<NodeId> inside_;        // all nodes that read full values
  std::map<ValueId, ValueId> whole_;  // full value -> in the shape of x_
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

bool IsConvolution(const Node& node) { return Is(node, "conv") || Is(node, "conv_transpose"); }

}  // namespace

absl::StatusOr<bool> ChannelGroups(Graph& graph, const PassContext&) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), IsConvolution)) return false;
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    const std::vector<std::vector<NodeId>> users = graph.Users();
    for (size_t i = 0; i < graph.nodes().size() && !again; ++i) {
      const Node& node = graph.nodes()[i];
      if (node.outputs.size() != 1) continue;
      KILN_ASSIGN_OR_RETURN(again, Region(graph, users, node.outputs[0]).Run());
    }
    if (!again) break;
    KILN_RETURN_IF_ERROR(graph.Sort());
    graph.RemoveDead();
    changed = true;
  }
  return changed;
}

}  // namespace kiln
