// SPDX-License-Identifier: Apache-2.0
// Exact simplifications: each keeps every bit of every result (payloads of NaN aside).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "fusion/literal.h"
#include "fusion/node_reads.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// Every value of `from` is a value of `to`.
bool Widens(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (IsFloat(from)) return IsFloat(to) && SizeOf(to) > SizeOf(from);
  if (!IsInt(from)) return false;
  if (IsInt(to)) return SizeOf(to) > SizeOf(from) && (IsSigned(to) || !IsSigned(from));
  const size_t exact_bytes = to == DType::kF64   ? 4
                             : to == DType::kF32 ? 2
                             : to == DType::kF16 ? 1
                                                 : 0;
  return SizeOf(from) <= exact_bytes;
}

// add, sub, mul, div, pow with a number on the right (or on either side, where the op commutes)
// that leaves x as it is.
Found Neutral(Graph& graph, const Node& node, const PassContext&) {
  if (node.inputs.size() != 2) return std::nullopt;
  const bool commutes = Is(node, "add") || Is(node, "mul");
  for (const int k : {1, 0}) {
    if (k == 0 && !commutes) break;
    const std::optional<double> number = NumberOf(graph.value(node.inputs[static_cast<size_t>(k)]));
    if (!number) continue;
    const ValueId x = node.inputs[static_cast<size_t>(1 - k)];
    const bool whole = !IsFloat(graph.value(x).type);
    // x + 0 turns -0 into +0; x + -0 and x - 0 do not.
    if (Is(node, "add") && *number == 0 && (whole || std::signbit(*number))) return x;
    if (Is(node, "sub") && *number == 0 && (whole || !std::signbit(*number))) return x;
    if ((Is(node, "mul") || Is(node, "div") || Is(node, "pow")) && *number == 1) return x;
  }
  return std::nullopt;
}

bool AllEqual(const Tensor& tensor) {
  constexpr int64_t kMostElements = 1 << 16;  // compile time: vectors over channels and the like
  if (tensor.num_elements() < 2 || tensor.num_elements() > kMostElements) return false;
  const Tensor dense = Dense(tensor);
  const auto* bytes = static_cast<const char*>(dense.data());
  const size_t size = SizeOf(dense.dtype());
  return std::memcmp(bytes, bytes + size, size * static_cast<size_t>(dense.num_elements() - 1)) ==
         0;
}

// A constant operand with the same number everywhere is that number, if another operand has the
// result's shape.
Found OneNumber(Graph& graph, const Node& node, const PassContext&) {
  if (node.op->kind != OpKind::kScalar || node.inputs.size() < 2) return std::nullopt;
  const Shape& shape = graph.value(node.outputs[0]).shape;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const auto whole = [&](ValueId input) {
      return input.valid() && input != node.inputs[k] && graph.value(input).shape == shape;
    };
    if (!node.inputs[k].valid() || std::none_of(node.inputs.begin(), node.inputs.end(), whole))
      continue;
    const std::optional<Tensor> constant = graph.value(node.inputs[k]).constant;
    if (!constant || !AllEqual(*constant)) continue;
    std::vector<ValueId> inputs = node.inputs;
    const Tensor dense = Dense(*constant);
    inputs[k] = graph.AddConstant(
        "", Tensor::View(dense.data(), dense.dtype(), {}, {}, dense.owner()).Clone());
    return Made(graph, node.op->name, std::move(inputs), node.attrs, node.name);
  }
  return std::nullopt;
}

// An operand that is expanded to the shape that another one has: element-wise nodes broadcast.
Found ExpandedOperand(Graph& graph, const Node& node, const PassContext&) {
  if (node.op->kind != OpKind::kScalar || node.inputs.size() < 2) return std::nullopt;
  const Shape& shape = graph.value(node.outputs[0]).shape;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId operand = node.inputs[k];
    const auto whole = [&](ValueId input) {
      return input.valid() && input != operand && graph.value(input).shape == shape;
    };
    const Node* expand = operand.valid() ? Producer(graph, operand) : nullptr;
    if (expand == nullptr || !Is(*expand, "expand") ||
        std::none_of(node.inputs.begin(), node.inputs.end(), whole))
      continue;
    std::vector<ValueId> inputs = node.inputs;
    inputs[k] = expand->inputs[0];
    return Made(graph, node.op->name, std::move(inputs), node.attrs, node.name);
  }
  return std::nullopt;
}

// f(f(x)) is x.
Found Involution(Graph& graph, const Node& node, const PassContext&) {
  const bool neg = Is(node, "neg");
  if (!neg && !Is(node, "not")) return std::nullopt;
  const Node* inner = Producer(graph, node.inputs[0]);
  if (inner == nullptr || inner->op != node.op) return std::nullopt;
  return inner->inputs[0];
}

Found CastOfCast(Graph& graph, const Node& node, const PassContext&) {
  if (!Is(node, "cast")) return std::nullopt;
  const DType to = graph.value(node.outputs[0]).type;
  if (graph.value(node.inputs[0]).type == to) return node.inputs[0];
  const Node* inner = Producer(graph, node.inputs[0]);
  if (inner == nullptr || !Is(*inner, "cast")) return std::nullopt;
  const ValueId x = inner->inputs[0];
  const DType from = graph.value(x).type, by = graph.value(node.inputs[0]).type;
  if (!Widens(from, by)) return std::nullopt;
  // A float that becomes an integer saturates, an integer wraps: the two agree on what fits.
  if (IsInt(from) && IsFloat(by) && IsInt(to) && !Widens(from, to)) return std::nullopt;
  if (from == to) return x;
  GraphBuilder b(&graph);
  const ValueId result = b.Op("cast", {x}, {{"to", to}}, node.name);
  return b.status().ok() ? Found(result) : std::nullopt;
}

// An index node that reads every element of one input at its own place.
Found Nothing(Graph& graph, const Node& node, const PassContext&) {
  if (Is(node, "identity") || Is(node, "stop_gradient")) return node.inputs[0];
  if (node.op->kind != OpKind::kIndex || node.outputs.size() != 1 ||
      ViewSource(graph, node.outputs[0]))
    return std::nullopt;
  const absl::StatusOr<NodeReads> reads = ReadsOf(graph, node.outputs[0]);
  if (!reads.ok() || reads->pieces.size() != 1 || !reads->pieces[0].bounds.empty())
    return std::nullopt;
  const NodeRead& read = reads->reads[static_cast<size_t>(reads->pieces[0].read)];
  if (!read.value.valid()) return std::nullopt;
  for (size_t axis = 0; axis < read.axes.size(); ++axis) {
    const ReadAxis& at = read.axes[axis];
    if (at.kind != ReadAxis::Kind::kOne &&
        (at.kind != ReadAxis::Kind::kSame || at.out_axis != static_cast<int>(axis))) {
      return std::nullopt;
    }
  }
  return read.value;
}

Found TransposeOfTranspose(Graph& graph, const Node& node, const PassContext&) {
  if (!Is(node, "transpose")) return std::nullopt;
  const Node* inner = Producer(graph, node.inputs[0]);
  if (inner == nullptr || !Is(*inner, "transpose")) return std::nullopt;
  const size_t rank = graph.value(node.inputs[0]).shape.size();
  const auto perm_of = [&](const Node& transpose) {
    std::vector<int64_t> perm = IntsAttr(transpose, "perm");
    for (size_t i = 0; perm.size() < rank; ++i) perm.push_back(static_cast<int64_t>(rank - 1 - i));
    return perm;
  };
  const std::vector<int64_t> first = perm_of(*inner);
  std::vector<int64_t> both;
  for (const int64_t axis : perm_of(node)) both.push_back(first[static_cast<size_t>(axis)]);
  const ValueId x = inner->inputs[0];
  GraphBuilder b(&graph);
  const ValueId result = b.Op("transpose", {x}, {{"perm", std::move(both)}}, node.name);
  return b.status().ok() ? Found(result) : std::nullopt;
}

// Views of views are one reshape, or nothing.
Found ViewOfView(Graph& graph, const Node& node, const PassContext&) {
  const std::optional<ValueId> source = ViewSource(graph, node.outputs[0]);
  if (!source) return std::nullopt;
  const Shape shape = graph.value(node.outputs[0]).shape;
  if (graph.value(*source).shape == shape) return *source;
  const std::optional<ValueId> root = ViewSource(graph, *source);
  if (!root) return std::nullopt;
  if (graph.value(*root).shape == shape) return *root;
  GraphBuilder b(&graph);
  Attrs attrs = {{"shape", DimsValue(shape)}};
  for (const Dim& dim : shape) {
    if (dim.IsConst(0)) attrs["allowzero"] = int64_t{1};
  }
  const ValueId result = b.Op("reshape", {*root}, std::move(attrs), node.name);
  if (!b.status().ok() || !(graph.value(result).shape == shape)) return std::nullopt;
  return result;
}

// Extents that a result has from an operand are read off that: nobody has to make the result.
Found ShapeOfOperand(Graph& graph, const Node& node, const PassContext&) {
  if (!Is(node, "shape")) return std::nullopt;
  const Node* made = Producer(graph, node.inputs[0]);
  if (made == nullptr || made->op->dynamic || made->op->kind == OpKind::kHost ||
      made->op->kind == OpKind::kControl)
    return std::nullopt;
  const Shape& shape = graph.value(node.inputs[0]).shape;
  const int64_t first = IntAttr(node, "start"), behind = IntAttr(node, "end");
  const auto has_them = [&](const Shape& other) {
    if (other == shape) return true;
    if (node.attrs.count("end") == 0 || first < 0 || behind < first ||
        behind > static_cast<int64_t>(std::min(shape.size(), other.size())))
      return false;
    return std::equal(shape.begin() + first, shape.begin() + behind, other.begin() + first);
  };
  for (const ValueId operand : made->inputs) {
    if (operand.valid() && has_them(graph.value(operand).shape))
      return Made(graph, "shape", {operand}, node.attrs, node.name);
  }
  return std::nullopt;
}

constexpr Rule kAlgebraRules[] = {Nothing,       OneNumber,  ExpandedOperand,      Neutral,
                                  Involution,    CastOfCast, TransposeOfTranspose, ViewOfView,
                                  ShapeOfOperand};

}  // namespace

absl::StatusOr<bool> Algebra(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kAlgebraRules, context);
}

}  // namespace kiln
