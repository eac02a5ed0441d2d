// SPDX-License-Identifier: Apache-2.0
// Products of one value with several constant matrices become one product with all of them side by
// side, and its parts slices: the queries, keys and values of attention.
//
// Example: q = x * wq + bq, k = x * wk + bk become y = x * [wq wk] + [bq bk], q = y[:, :n], k =
// y[:, n:]. Only where nothing but moves and library operators read the parts: these take slices as
// they lie, and no activation loses its place in the library call.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// A product, and the bias that is added to nothing but it.
struct Part {
  NodeId product;
  ValueId weights, bias;  // bias: invalid if there is none
  ValueId result;
};

bool IsConstant(const Graph& graph, ValueId value, size_t rank) {
  const Value& v = graph.value(value);
  return v.constant && v.type == DType::kF32 && v.shape.size() == rank && v.constant->is_dense();
}

// True if only nodes that move elements, or are library operators, read the value.
bool OnlyMoved(const Graph& graph, ValueId value, const std::vector<NodeId>& readers) {
  if (graph.IsOutput(value) || readers.empty()) return false;
  return std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
    const OpKind kind = graph.node(id).op->kind;
    return kind == OpKind::kIndex || kind == OpKind::kLibrary;
  });
}

// Whether the weights are [n, k].
bool IsTransposed(const Node& product) { return IntAttr(product, "trans_b") != 0; }

std::optional<Part> PartOf(const Graph& graph, NodeId id,
                           const std::vector<std::vector<NodeId>>& users) {
  const Node& node = graph.node(id);
  if (!Is(node, "matmul") || IntAttr(node, "trans_a") != 0 || !IsConstant(graph, node.inputs[1], 2))
    return std::nullopt;
  Part part{id, node.inputs[1], {}, node.outputs[0]};
  const auto readers = [&](ValueId v) { return users[static_cast<size_t>(v.v)]; };
  if (readers(part.result).size() == 1 && !graph.IsOutput(part.result)) {
    const Node& next = graph.node(readers(part.result)[0]);
    if (Is(next, "add")) {
      const ValueId other = next.inputs[next.inputs[0] == part.result ? 1 : 0];
      if (other == part.result || !IsConstant(graph, other, 1)) return std::nullopt;
      if (!(graph.value(other).shape[0] ==
            graph.value(part.weights).shape[IsTransposed(node) ? 0 : 1]))
        return std::nullopt;
      part.bias = other;
      part.result = next.outputs[0];
    }
  }
  if (!OnlyMoved(graph, part.result, readers(part.result))) return std::nullopt;
  return part;
}

// Of a matrix [k, n], or [n, k] where it is `transposed`, or a vector.
int64_t Columns(const Graph& graph, ValueId value, bool transposed) {
  const std::vector<int64_t>& shape = graph.value(value).constant->shape();
  return transposed ? shape.front() : shape.back();
}

// Transposed matrices, or vectors, one after the other.
Tensor Stacked(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<int64_t> shape = graph.value(values[0]).constant->shape();
  shape.front() = 0;
  for (const ValueId value : values) shape.front() += Columns(graph, value, /*transposed=*/true);
  Tensor all = Tensor::Allocate(DType::kF32, shape);
  auto* to = static_cast<char*>(all.data());
  for (const ValueId value : values) {
    const Tensor& from = *graph.value(value).constant;
    std::memcpy(to, from.data(), static_cast<size_t>(from.size_bytes()));
    to += from.size_bytes();
  }
  return all;
}

// Matrices side by side.
Tensor SideBySide(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<int64_t> shape = graph.value(values[0]).constant->shape();
  const int64_t rows = shape[0];
  shape.back() = 0;
  for (const ValueId value : values) shape.back() += graph.value(value).constant->shape().back();
  Tensor all = Tensor::Allocate(DType::kF32, shape);
  auto* to = static_cast<float*>(all.data());
  for (int64_t row = 0; row < rows; ++row) {
    for (const ValueId value : values) {
      const Tensor& from = *graph.value(value).constant;
      const int64_t columns = from.shape().back();
      std::memcpy(to, static_cast<const float*>(from.data()) + row * columns,
                  static_cast<size_t>(columns) * sizeof(float));
      to += columns;
    }
  }
  return all;
}

bool Merge(Graph& graph, const std::vector<Part>& parts) {
  std::vector<ValueId> weights, biases;
  for (const Part& part : parts) {
    weights.push_back(part.weights);
    if (part.bias.valid()) biases.push_back(part.bias);
  }
  const Node first = graph.node(parts[0].product);  // a copy: nodes are added
  GraphBuilder b(&graph);
  const bool transposed = IsTransposed(first);
  ValueId y = b.Op("matmul",
                   {first.inputs[0],
                    b.Constant(transposed ? Stacked(graph, weights) : SideBySide(graph, weights))},
                   first.attrs, first.name);
  if (!biases.empty()) y = b.Op("add", {y, b.Constant(Stacked(graph, biases))}, {}, first.name);
  if (!b.status().ok()) return false;
  const auto axis = static_cast<int64_t>(graph.value(y).shape.size()) - 1;
  int64_t start = 0;
  std::vector<ValueId> slices;
  for (const Part& part : parts) {
    const int64_t end = start + Columns(graph, part.weights, transposed);
    slices.push_back(b.Op("slice", {y},
                          {{"starts", DimsValue({Dim(start)})},
                           {"ends", DimsValue({Dim(end)})},
                           {"axes", DimsValue({Dim(axis)})}},
                          graph.node(part.product).name));
    if (!b.status().ok() || !(graph.value(slices.back()).shape == graph.value(part.result).shape))
      return false;
    start = end;
  }
  for (size_t i = 0; i < parts.size(); ++i) graph.ReplaceUses(parts[i].result, slices[i]);
  return true;
}

}  // namespace

absl::StatusOr<bool> FuseHorizontalGemms(Graph& graph, const PassContext& context) {
  const std::vector<std::vector<NodeId>> users = graph.Users();
  // By operand, how the weights lie, and whether there is a bias.
  std::map<std::tuple<ValueId, bool, bool>, std::vector<Part>> alike;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (const std::optional<Part> part = PartOf(graph, id, users))
      alike[{graph.node(id).inputs[0], IsTransposed(graph.node(id)), part->bias.valid()}].push_back(
          *part);
  }
  const size_t count = graph.nodes().size();
  bool changed = false;
  for (const auto& [key, parts] : alike) {
    int64_t bytes = 0;
    for (const Part& part : parts) bytes += graph.value(part.weights).constant->size_bytes();
    if (parts.size() < 2 || bytes > context.max_folded_bytes) continue;
    changed = Merge(graph, parts) || changed;
  }
  if (graph.nodes().size() == count) return false;
  KILN_RETURN_IF_ERROR(graph.Sort());
  graph.RemoveDead();
  return changed;
}

}  // namespace kiln
