// SPDX-License-Identifier: Apache-2.0
#include "fusion/library_call.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fusion/activation_pattern.h"
#include "fusion/literal.h"
#include "fusion/node_reads.h"
#include "fusion/rewrite.h"
#include "graph/op.h"
#include "schedule/device.h"

namespace kiln {
namespace {

bool IsConvOfBytes(const Node& node) {
  return Is(node, "conv_integer") || Is(node, "qlinear_conv");
}
bool IsConv(const Node& node) {
  return Is(node, "conv") || Is(node, "conv_transpose") || IsConvOfBytes(node);
}
bool IsMatmul(const Node& node) { return Is(node, "matmul") || Is(node, "matmul_integer"); }
bool IsPool(const Node& node) {
  return Is(node, "max_pool") || Is(node, "average_pool") || Is(node, "max_pool_backward") ||
         Is(node, "average_pool_backward");
}
// Of two activations; its result is a weight.
bool IsConvBackward(const Node& node) { return Is(node, "conv_backward_weights"); }
// Transposed convolutions take none: see onednn_conv.cc.
bool TakesPostOps(const Node& node) { return Is(node, "conv") || Is(node, "matmul"); }

// Channels, axis 1, are innermost and the rest lies in order.
bool IsChannelsLast(const StridedView& view) {
  Dim stride = view.shape[1];
  if (!view.strides[1].IsConst(1)) return false;
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (i == 1) continue;
    if (!view.shape[i].IsConst(1) && !(view.strides[i] == stride)) return false;
    stride = stride * view.shape[i];
  }
  return true;
}

// What operators read, and write, as fast as dense memory.
bool TakesInput(const Node& node, size_t input, const StridedView& view) {
  if (IsConv(node)) return input == 0 && IsChannelsLast(view);
  if (IsPool(node) || IsConvBackward(node)) return IsChannelsLast(view);
  const size_t rank = view.shape.size();
  return IsMatmul(node) && rank >= 2 &&
         (view.strides[rank - 1].IsConst(1) || view.strides[rank - 2].IsConst(1));
}

bool TakesOutput(const Node& node, const StridedView& view) {
  if (IsConv(node) || IsPool(node)) return IsChannelsLast(view);
  return IsMatmul(node) && view.shape.size() >= 2 && view.strides.back().IsConst(1);
}

// A product of rows with a stack that several products read. The stack is written once for all of
// them; its strides would have each call copy it.
bool ReadsSharedStack(const Graph& graph, const std::vector<std::vector<NodeId>>& users,
                      const Node& node) {
  if (!Is(node, "matmul") || graph.value(node.inputs[0]).shape.size() != 2 ||
      graph.value(node.inputs[1]).shape.size() != 3)
    return false;
  return users[static_cast<size_t>(node.inputs[1].v)].size() >= kLeastSharers;
}

// Operands of other types are dense.
bool TakesViews(const Graph& graph, const Node& node) {
  return graph.value(node.outputs[0]).type == DType::kF32 || IsConvOfBytes(node) ||
         Is(node, "matmul_integer");
}

// Division by it is exact as multiplication, in f32 too.
bool IsPowerOfTwo(double number) {
  int exponent = 0;
  return std::abs(std::frexp(number, &exponent)) == 0.5 && std::abs(exponent) < 126;
}

// The element-wise node as a post-op on `x`, its input that is no constant; nothing if there is
// none of its kind.
std::optional<LibraryPostOp> UnaryPostOp(const Graph& graph, const Node& node, ValueId x) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto number = [&](size_t k, double otherwise) -> std::optional<double> {
    if (k >= node.inputs.size() || !node.inputs[k].valid()) return otherwise;
    return NumberOf(graph.value(node.inputs[k]));
  };
  if (node.inputs[0] == x) {
    for (const char* name : {"relu", "sigmoid", "tanh", "hard_swish"}) {
      if (Is(node, name)) return LibraryPostOp{name, {}};
    }
    for (const char* name : {"leaky_relu", "elu", "swish"}) {
      if (Is(node, name)) return LibraryPostOp{name, {FloatAttr(node, "alpha")}};
    }
    if (Is(node, "hard_sigmoid"))
      return LibraryPostOp{"hard_sigmoid", {FloatAttr(node, "alpha"), FloatAttr(node, "beta")}};
    if (Is(node, "clip")) {
      const std::optional<double> low = number(1, -kInf), high = number(2, kInf);
      if (low && high && *low <= *high) return LibraryPostOp{"clip", {*low, *high}};
      return std::nullopt;
    }
  }
  if (node.inputs.size() != 2) return std::nullopt;
  const bool left = node.inputs[0] == x;
  const std::optional<double> c = NumberOf(graph.value(node.inputs[left ? 1 : 0]));
  if (!c) return std::nullopt;
  if (Is(node, "add")) return LibraryPostOp{"linear", {1, *c}};
  if (Is(node, "mul")) return LibraryPostOp{"linear", {*c, 0}};
  if (Is(node, "sub"))
    return left ? LibraryPostOp{"linear", {1, -*c}} : LibraryPostOp{"linear", {-1, *c}};
  if (Is(node, "div") && left && IsPowerOfTwo(*c)) return LibraryPostOp{"linear", {1 / *c, 0}};
  return std::nullopt;
}

// What the calls found so far make of nodes and values.
struct FoundCalls {
  explicit FoundCalls(const Graph& graph)
      : taken(graph.nodes().size()), hidden(graph.values().size()), read(graph.values().size()) {}
  std::vector<bool> taken;   // nodes that belong to a call
  std::vector<bool> hidden;  // values within a call, which nothing writes
  std::vector<bool> read;    // values that a call reads where they lie
};

size_t Index(ValueId id) { return static_cast<size_t>(id.v); }

// Follows the chain of nodes behind one operator.
class Chain {
 public:
  // `model`: of the device whose library computes the call; null: the host's.
  Chain(const Graph& graph, const std::vector<std::vector<NodeId>>& users, const DeviceModel* model,
        bool fast, FoundCalls& found, LibraryCall& call)
      : graph_(graph),
        users_(users),
        model_(model),
        fast_(fast),
        found_(found),
        taken_(found.taken),
        call_(call),
        op_(graph.node(call.op)) {
    const ValueId output = op_.outputs[0];
    at_ = output;
    call_.output = DenseView(graph, output);
    for (size_t i = 0; i < call_.output.shape.size(); ++i) axes_.push_back(static_cast<int>(i));
  }

  void Follow() {
    while (Step()) {
    }
    // What only scales is free in the kernel that follows.
    while (!saved_.empty() && call_.post_ops.back().name == "linear" && !EndsHere()) {
      call_.stopped = "a multiple at the end is left to the kernel that follows";
      Undo();
    }
    for (const NodeId node : call_.nodes) {
      taken_[static_cast<size_t>(node.v)] = true;
      for (const ValueId id : graph_.node(node).outputs)
        found_.hidden[Index(id)] = id != call_.output.base;
    }
    for (const StridedView& input : call_.inputs) {
      if (input.base.valid()) found_.read[Index(input.base)] = true;
    }
  }

 private:
  struct Saved {
    size_t nodes, inputs;
    StridedView output;
  };

  bool Stop(std::string reason) {
    call_.stopped = std::move(reason);
    return false;
  }

  // One node further. `at_` is the value the chain has come to: call_.output.base, or a view of it.
  bool Step() {
    constexpr size_t kMostPostOps = 32;  // correctness: oneDNN refuses more
    if (call_.post_ops.size() == kMostPostOps) return Stop("it has all post-ops that a call takes");
    const std::vector<NodeId>& readers = users_[static_cast<size_t>(at_.v)];
    if (readers.empty() && !graph_.IsOutput(at_)) return false;
    if (graph_.IsOutput(at_)) return Stop("its result is an output");
    if (found_.read[Index(call_.output.base)])
      return Stop("another call reads its result where it lies");
    const auto activation = TakesPostOps(op_) ? FindActivation(graph_, users_, at_) : std::nullopt;
    if (activation) return TakeActivation(*activation);
    if (readers.size() != 1) return Stop("its result has several readers");
    const NodeId id = readers[0];
    const Node& node = graph_.node(id);
    if (node.outputs.size() != 1 || taken_[static_cast<size_t>(id.v)])
      return Stop("the next node belongs to another call");
    if (ViewSource(graph_, node.outputs[0]) == at_) {
      if (!(graph_.value(node.outputs[0]).shape == graph_.value(at_).shape)) axes_.clear();
      at_ = node.outputs[0];
      return true;
    }
    if (Is(node, "transpose")) return TakeTranspose(id, node);
    if (!TakesPostOps(op_)) return Stop(absl::StrCat("\"", op_.op->name, "\" takes no post-ops"));
    if (node.op->kind != OpKind::kScalar)
      return Stop(absl::StrCat("\"", node.op->name, "\" is no post-op"));
    if (graph_.value(node.outputs[0]).type != DType::kF32 ||
        !(graph_.value(node.outputs[0]).shape == graph_.value(at_).shape)) {
      return Stop(absl::StrCat("\"", node.op->name, "\" changes the type or shape"));
    }
    if (const auto unary = UnaryPostOp(graph_, node, at_)) return Take(id, *unary);
    return TakeBinary(id, node);
  }

  // Enters a post-op that `nodes` make, the last of which has the result. `vector`: as PostOpForm.
  bool Take(std::vector<NodeId> nodes, LibraryPostOp op, bool vector = false) {
    std::vector<PostOpForm> before;
    for (size_t k = 0; k < call_.post_ops.size(); ++k)
      before.push_back({call_.post_ops[k].name, vectors_[k]});
    if (model_ != nullptr &&
        !model_->takes_post_op(op_.op->name, before, {op.name, vector}, fast_)) {
      return Stop(absl::StrCat("the device's library does no \"", op.name, "\" here"));
    }
    saved_.push_back({call_.nodes.size(), call_.inputs.size(), call_.output});
    vectors_.push_back(vector);
    call_.nodes.insert(call_.nodes.end(), nodes.begin(), nodes.end());
    call_.post_ops.push_back(std::move(op));
    at_ = graph_.node(nodes.back()).outputs[0];
    call_.output.base = at_;
    return true;
  }
  bool Take(NodeId node, LibraryPostOp op, bool vector = false) {
    return Take(std::vector<NodeId>{node}, std::move(op), vector);
  }

  bool TakeActivation(const ActivationPattern& found) {
    for (const NodeId node : found.nodes) {
      if (taken_[static_cast<size_t>(node.v)]) return Stop("the next node belongs to another call");
    }
    return Take(found.nodes, {found.name, found.numbers});
  }

  void Undo() {
    const Saved& saved = saved_.back();
    call_.nodes.resize(saved.nodes);
    call_.inputs.resize(saved.inputs);
    call_.output = saved.output;
    call_.post_ops.pop_back();
    vectors_.pop_back();
    at_ = call_.output.base;
    saved_.pop_back();
  }

  bool TakeTranspose(NodeId id, const Node& node) {
    if (axes_.empty()) return Stop("the transpose follows a reshape");
    if (model_ != nullptr && !IsMatmul(op_))
      return Stop("the device's library writes dense results only");
    const ValueId moved = node.outputs[0];
    const absl::StatusOr<NodeReads> reads = ReadsOf(graph_, moved);
    if (!reads.ok()) return Stop("the transpose is not understood");
    if (ReadsSharedStack(graph_, users_, op_) && !EndsAt(moved))
      return Stop("the kernel that follows reads its panels");
    const Shape dense = RowMajor(graph_.value(moved).shape);
    // Axis i of the chain's value is axis to[i] of the moved one; extent-1 axes are nowhere.
    std::vector<int> to;
    for (const ReadAxis& axis : reads->reads[0].axes) to.push_back(axis.out_axis);
    StridedView output = call_.output;
    output.base = moved;
    std::vector<int> axes = axes_;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const int moved_axis = axes_[i] < 0 ? -1 : to[static_cast<size_t>(axes_[i])];
      output.strides[i] = moved_axis < 0 ? Dim(1) : dense[static_cast<size_t>(moved_axis)];
      axes[i] = moved_axis;
    }
    if (!TakesOutput(op_, output))
      return Stop(absl::StrCat("\"", op_.op->name, "\" does not write that transpose fast"));
    call_.nodes.push_back(id);
    call_.output = std::move(output);
    axes_ = std::move(axes);
    at_ = moved;
    saved_.clear();  // what came before stays
    return true;
  }

  bool TakeBinary(NodeId id, const Node& node) {
    const bool add = Is(node, "add"), mul = Is(node, "mul");
    if (!add && !mul) return Stop(absl::StrCat("\"", node.op->name, "\" is no post-op"));
    const ValueId other = node.inputs[node.inputs[0] == at_ ? 1 : 0];
    if (other == at_) return Stop("both operands are its result");
    if (add && IsOfLaterCall(other)) return Stop("the call that comes last takes the sum along");
    std::optional<StridedView> operand = OperandOf(other);
    if (!operand) {
      return Stop(absl::StrCat("the operand of \"", node.op->name,
                               "\" is neither a vector over the channels nor of the same shape"));
    }
    const bool vector = !(graph_.value(other).shape == graph_.value(at_).shape);
    if (!Take(id, {add ? "add" : "mul", {}}, vector)) return false;
    call_.inputs.push_back(*std::move(operand));
    return true;
  }

  // Whether a later product or convolution gives `value` to the next node alone: that one may take
  // it along, and may add where this chain's value lies. What it reads need not wait for it.
  bool IsOfLaterCall(ValueId value) const {
    const NodeId maker = graph_.value(value).producer;
    return call_.op < maker && TakesPostOps(graph_.node(maker)) && !graph_.IsOutput(value) &&
           users_[Index(value)].size() == 1 && graph_.value(value).shape == graph_.value(at_).shape;
  }

  // `value`, which broadcasts to the chain's value, in terms of the operator's output.
  std::optional<StridedView> OperandOf(ValueId value) const {
    const Value& other = graph_.value(value);
    const Shape& shape = graph_.value(at_).shape;
    const Shape& out = call_.output.shape;
    if (other.type != DType::kF32) return std::nullopt;
    StridedView operand{value, 0, out, call_.output.strides};
    if (other.shape == shape) {  // dense, as the chain's value is, maybe amidst other memory
      const StridedView view = StridedOf(graph_, value);
      if (IsDense(view) && !found_.hidden[Index(view.base)]) {
        operand.base = view.base;
        operand.offset = view.offset;
      }
      return operand;
    }
    // A vector: one axis of the chain's value, which is the operator's channels or columns.
    const size_t channels = IsConv(op_) ? 1 : out.size() - 1;
    std::optional<size_t> along;
    for (size_t i = 0; i < other.shape.size(); ++i) {
      if (other.shape[i].IsConst(1)) continue;
      if (along) return std::nullopt;
      along = shape.size() - other.shape.size() + i;
    }
    if (!along || out.empty()) return std::nullopt;
    const bool same = axes_.empty()
                          ? !IsConv(op_) && *along + 1 == shape.size() && shape.back() == out.back()
                          : axes_[channels] == static_cast<int>(*along);
    if (!same) return std::nullopt;
    operand.shape.assign(out.size(), Dim(1));
    operand.strides.assign(out.size(), Dim(1));
    operand.shape[channels] = out[channels];
    return operand;
  }

  bool EndsHere() const { return EndsAt(at_); }
  // Whether no kernel reads the value: it is an output, or library operators read it.
  bool EndsAt(ValueId end) const {
    if (graph_.IsOutput(end)) return true;
    std::vector<ValueId> open = {end};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      for (const NodeId id : users_[static_cast<size_t>(value.v)]) {
        const Node& node = graph_.node(id);
        if (node.op->kind == OpKind::kLibrary) continue;
        const bool moves = Is(node, "transpose") || ViewSource(graph_, node.outputs[0]);
        if (!moves) return false;
        if (graph_.IsOutput(node.outputs[0])) continue;
        open.push_back(node.outputs[0]);
      }
    }
    return true;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>>& users_;
  const DeviceModel* const model_;
  const bool fast_;
  FoundCalls& found_;
  std::vector<bool>& taken_;
  LibraryCall& call_;
  const Node& op_;
  ValueId at_;
  std::vector<int> axes_;  // axis of the operator's output -> of at_, -1: extent 1; empty: unknown
  std::vector<Saved> saved_;   // before each post-op, to undo those at the end
  std::vector<bool> vectors_;  // of each post-op: as PostOpForm
};

}  // namespace

std::vector<LibraryCall> FindLibraryCalls(const Graph& graph, int level,
                                          const LibraryRules& rules) {
  std::vector<LibraryCall> calls(graph.nodes().size());
  FoundCalls found(graph);
  const std::vector<std::vector<NodeId>> users = graph.Users();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->kind != OpKind::kLibrary) continue;
    LibraryCall& call = calls[i];
    call.op = NodeId{static_cast<int32_t>(i)};
    call.nodes = {call.op};
    const DeviceModel* const model =
        IsDeviceCall(graph, node, rules) ? &ModelOf(rules.device) : nullptr;
    const bool takes_views = level >= 2 && TakesViews(graph, node);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      StridedView& input = call.inputs.emplace_back();
      if (!node.inputs[k].valid()) continue;
      input = DenseView(graph, node.inputs[k]);
      if (!takes_views || (model != nullptr && !IsMatmul(node))) continue;
      if (k == 1 && ReadsSharedStack(graph, users, node)) continue;
      for (const auto view : {StridedOf, StridedStep}) {
        StridedView strided = view(graph, node.inputs[k]);
        if (strided.base == input.base || found.hidden[Index(strided.base)] ||
            !TakesInput(node, k, strided))
          continue;
        input = std::move(strided);
        break;
      }
      found.read[Index(input.base)] = true;
    }
    call.output = DenseView(graph, node.outputs[0]);
    if (!takes_views) continue;
    Chain(graph, users, model, rules.fast, found, call).Follow();
  }
  return calls;
}

}  // namespace kiln
