// SPDX-License-Identifier: Apache-2.0
// Constant factors and terms of each channel that follow a convolution or matrix product become
// part of its weights and bias: what is left of a batch norm, and the like. The weights are rounded
// once more than the formula says.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/bump_allocator.h"
#include "base/status_macros.h"
#include "fusion/literal.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// What follows the operator: y[c] * factor[c] + term[c], c running over the channels.
struct Affine {
  std::vector<double> factor, term;
};

// An operator whose weights are known, and how they lie.
struct Weighted {
  const Node* node = nullptr;
  bool conv = false;
  int64_t channels = 0;        // of the output
  size_t axis = 0;             // the output's axis of channels
  std::vector<int64_t> shape;  // of the weights
  bool transposed = false;     // matmul: trans_b
};

const Tensor* ConstantOf(const Graph& graph, ValueId value) {
  const std::optional<Tensor>& constant = graph.value(value).constant;
  return constant && constant->dtype() == DType::kF32 ? &*constant : nullptr;
}

std::optional<Weighted> WeightedOf(const Graph& graph, const Node& node) {
  // Transposed convolutions stay as they are: the library adds no bias to them (onednn_conv.cc).
  const bool conv = Is(node, "conv"), matmul = Is(node, "matmul");
  if (!conv && !matmul) return std::nullopt;
  const Tensor* weights = ConstantOf(graph, node.inputs[1]);
  if (weights == nullptr) return std::nullopt;
  Weighted w{&node, conv, 0, 1, weights->shape()};
  if (matmul) {
    if (w.shape.size() != 2) return std::nullopt;
    w.transposed = IntAttr(node, "trans_b") != 0;
    w.channels = w.shape[w.transposed ? 0 : 1];
    w.axis = graph.value(node.outputs[0]).shape.size() - 1;
    return w;
  }
  w.channels = w.shape[0];
  const bool bias = node.inputs.size() > 2 && node.inputs[2].valid();
  if (bias && ConstantOf(graph, node.inputs[2]) == nullptr) return std::nullopt;
  return w;
}

// The elements of a constant that runs with the channels, or is a number, one per channel.
std::optional<std::vector<double>> PerChannel(const Graph& graph, ValueId value, const Weighted& w,
                                              size_t rank) {
  const Tensor* constant = ConstantOf(graph, value);
  if (constant == nullptr) return std::nullopt;
  const Tensor dense = Dense(*constant);
  if (dense.num_elements() == 1 && dense.shape().size() <= rank)
    return std::vector<double>(static_cast<size_t>(w.channels), ReadFloat(dense, 0));
  if (dense.num_elements() != w.channels || dense.shape().size() > rank) return std::nullopt;
  const size_t missing = rank - dense.shape().size();
  for (size_t i = 0; i < dense.shape().size(); ++i) {
    if (dense.shape()[i] != 1 && missing + i != w.axis) return std::nullopt;
  }
  std::vector<double> values;
  for (int64_t c = 0; c < w.channels; ++c) values.push_back(ReadFloat(dense, c));
  return values;
}

// The scalar node `next` on the operator's result `y`, as an affine map.
std::optional<Affine> AffineOf(const Graph& graph, const Node& next, ValueId y, const Weighted& w) {
  if (next.inputs.size() != 2 || next.inputs[0] == next.inputs[1]) return std::nullopt;
  const bool left = next.inputs[0] == y;
  const size_t rank = graph.value(y).shape.size();
  const auto values = PerChannel(graph, next.inputs[left ? 1 : 0], w, rank);
  if (!values) return std::nullopt;
  const std::vector<double> ones(values->size(), 1), zeros(values->size(), 0);
  Affine affine{ones, zeros};
  if (Is(next, "add")) {
    affine.term = *values;
  } else if (Is(next, "mul")) {
    affine.factor = *values;
  } else if (Is(next, "sub")) {
    for (size_t c = 0; c < values->size(); ++c) {
      affine.factor[c] = left ? 1 : -1;
      affine.term[c] = left ? -(*values)[c] : (*values)[c];
    }
  } else if (Is(next, "div") && left) {
    for (size_t c = 0; c < values->size(); ++c) affine.factor[c] = 1 / (*values)[c];
  } else {
    return std::nullopt;
  }
  return affine;
}

// How many elements of the weights, one after the other, are of one channel; then those of the next
// follow.
int64_t RunOf(const Weighted& w) {
  if (!w.conv) return w.transposed ? w.shape[1] : 1;
  int64_t run = w.shape[1];
  for (size_t k = 2; k < w.shape.size(); ++k) run *= w.shape[k];
  return run;
}

// Sets element i of `to`, rounded; false if that makes a number infinite or NaN.
bool SetElement(Tensor& to, int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  static_cast<float*>(to.data())[i] = rounded;
  return std::isfinite(rounded);
}

Tensor Allocated(const std::vector<int64_t>& shape, BumpAllocator& allocator) {
  std::shared_ptr<void> memory =
      allocator.Take(static_cast<size_t>(CheckedBytes(DType::kF32, shape)));
  if (memory == nullptr) throw std::bad_alloc();
  void* const data = memory.get();
  return Tensor::View(data, DType::kF32, shape, {}, std::move(memory));
}

// The operator with `affine` in its weights and bias; nothing if a weight would overflow.
std::optional<ValueId> Folded(Graph& graph, const Weighted& w, const Affine& affine,
                              BumpAllocator& allocator) {
  const auto is = [](double number) { return [number](double v) { return v == number; }; };
  const bool scales = !std::all_of(affine.factor.begin(), affine.factor.end(), is(1));
  const bool shifts = !std::all_of(affine.term.begin(), affine.term.end(), is(0));
  if (shifts && !w.conv) return std::nullopt;
  const Node node = *w.node;  // a copy: constants are added
  const Tensor weights = Dense(*graph.value(node.inputs[1]).constant);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2].valid();
  const Tensor bias = has_bias ? Dense(*graph.value(node.inputs[2]).constant) : Tensor();
  Tensor scaled = scales ? Allocated(w.shape, allocator) : weights;
  Tensor shifted = Tensor::Allocate(DType::kF32, {w.channels});
  const auto* from = static_cast<const float*>(weights.data());
  constexpr uint32_t kExponent = 0x7f800000;  // correctness: all ones: infinite or NaN
  uint32_t greatest = 0;
  const int64_t count = scales ? weights.num_elements() : 0, run = RunOf(w);
  for (int64_t begin = 0, c = 0; begin < count; begin += run, c = (c + 1) % w.channels) {
    const double factor = affine.factor[static_cast<size_t>(c)];
    auto* const to = static_cast<float*>(scaled.data());
    for (int64_t i = begin; i < begin + run; ++i) {
      to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
      greatest = std::max(greatest, std::bit_cast<uint32_t>(to[i]) & kExponent);
    }
  }
  bool finite = greatest != kExponent;
  for (int64_t c = 0; c < w.channels; ++c) {
    const auto k = static_cast<size_t>(c);
    const double old =
        has_bias ? static_cast<double>(static_cast<const float*>(bias.data())[c]) : 0;
    finite = SetElement(shifted, c, old * affine.factor[k] + affine.term[k]) && finite;
  }
  if (!finite) return std::nullopt;
  GraphBuilder b(&graph);
  std::vector<ValueId> inputs = {node.inputs[0],
                                 scales ? b.Constant(std::move(scaled)) : node.inputs[1]};
  if (shifts || has_bias) inputs.push_back(b.Constant(std::move(shifted)));
  const ValueId result = b.Op(node.op->name, std::move(inputs), node.attrs, node.name);
  return b.status().ok() ? std::optional(result) : std::nullopt;
}

bool FoldAfter(Graph& graph, NodeId id, const std::vector<std::vector<NodeId>>& users,
               BumpAllocator& allocator) {
  const Node& node = graph.node(id);
  const std::optional<Weighted> weighted = WeightedOf(graph, node);
  if (!weighted) return false;
  const ValueId y = node.outputs[0];
  const std::vector<NodeId>& readers = users[static_cast<size_t>(y.v)];
  if (readers.size() != 1 || graph.IsOutput(y)) return false;
  const Node& next = graph.node(readers[0]);
  if (next.op->kind != OpKind::kScalar || next.outputs.size() != 1) return false;
  const ValueId result = next.outputs[0];
  const Value &before = graph.value(y), &after = graph.value(result);
  if (before.type != after.type || !(before.shape == after.shape)) return false;
  const std::optional<Affine> affine = AffineOf(graph, next, y, *weighted);
  if (!affine) return false;
  const std::optional<ValueId> folded = Folded(graph, *weighted, *affine, allocator);
  if (!folded) return false;
  graph.ReplaceUses(result, *folded);
  return true;
}

}  // namespace

absl::StatusOr<bool> FoldBatchNorm(Graph& graph, const PassContext&) {
  bool changed = false;
  BumpAllocator allocator;
  for (bool again = true; again;) {
    again = false;
    const std::vector<std::vector<NodeId>> users = graph.Users();
    const size_t count = graph.nodes().size();
    for (size_t i = 0; i < count; ++i)
      again = FoldAfter(graph, NodeId{static_cast<int32_t>(i)}, users, allocator) || again;
    if (!again) break;
    KILN_RETURN_IF_ERROR(graph.Sort());
    graph.RemoveDead();
    changed = true;
  }
  return changed;
}

}  // namespace kiln
