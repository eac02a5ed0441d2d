// SPDX-License-Identifier: Apache-2.0
// What element-wise nodes make of one 8-bit value and constants is a function of a byte, or of a
// byte and a channel. Its 256 values, for each channel, are computed here, by the kernel that the
// nodes would be, and the nodes become a lookup: the same bits. Example, a quantised relu:
//
//   y = quantise(relu(dequantise(x, s[c], z[c])), t[c], w[c])    ->    y = lookup(x, table[c, 256])
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fusion/constant_kernel.h"
#include "fusion/node_analysis.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/op.h"

namespace kiln {
namespace {

constexpr int64_t kBytes = 256;  // correctness
// Rows of a table: to compute one takes 30 microseconds.
constexpr int64_t kMostRows = 2048;  // compile time
constexpr int64_t kLeastInner = 64;  // speed: bytes in a row that one table is for
constexpr size_t kMostNodes = 64;    // compile time
constexpr int64_t kLeastCost = 16;  // speed: additions; a lookup without permutations costs as much

bool IsByte(const Value& value) { return value.type == DType::kU8 || value.type == DType::kI8; }

// The nodes, and what they are a function of.
struct Chain {
  std::vector<NodeId> nodes;  // ascending
  ValueId x;
  int axis = 0;  // of the channels
  int64_t rows = 1;
  int64_t cost = 0;
};

class Finder {
 public:
  Finder(const Graph& graph, ValueId result) : graph_(graph), result_(result) {}

  std::optional<Chain> Find() {
    if (!Take(result_) || !chain_.x.valid() || chain_.cost < kLeastCost || !RowsAreLong())
      return std::nullopt;
    users_ = graph_.Users();  // walks the whole graph
    std::sort(chain_.nodes.begin(), chain_.nodes.end());
    const bool inside = std::all_of(chain_.nodes.begin(), chain_.nodes.end(), [&](NodeId id) {
      const ValueId value = graph_.node(id).outputs[0];
      return value == result_ || OnlyReadInside(value);
    });
    return inside && StandsAlone() ? std::optional(chain_) : std::nullopt;
  }

 private:
  const Shape& shape() const { return graph_.value(result_).shape; }

  bool Take(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.constant) return TakeConstant(value);
    const bool computed = value.producer.v >= 0 &&
                          graph_.node(value.producer).op->kind == OpKind::kScalar &&
                          graph_.node(value.producer).outputs.size() == 1;
    if (!(value.shape == shape())) return false;
    if (!computed) {
      if (!IsByte(value) || (chain_.x.valid() && chain_.x != id)) return false;
      chain_.x = id;
      return true;
    }
    if (Has(value.producer)) return true;
    if (chain_.nodes.size() == kMostNodes) return false;
    chain_.nodes.push_back(value.producer);
    const Node& node = graph_.node(value.producer);
    chain_.cost += CostOf(ScalarBodyOf(graph_, node));
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return !input.valid() || Take(input); });
  }

  // One number, or one for each channel.
  bool TakeConstant(const Value& value) {
    const std::optional<std::vector<int64_t>> extents = Constant(value.shape);
    if (!extents || extents->size() > shape().size()) return false;
    const size_t missing = shape().size() - extents->size();
    for (size_t d = 0; d < extents->size(); ++d) {
      const int64_t extent = (*extents)[d];
      if (extent == 1) continue;
      const auto axis = static_cast<int>(d + missing);
      if (extent == 0 || (chain_.rows != 1 && (axis != chain_.axis || extent != chain_.rows)))
        return false;
      chain_.axis = axis;
      chain_.rows = extent;
    }
    return true;
  }

  bool Has(NodeId id) const {
    return std::find(chain_.nodes.begin(), chain_.nodes.end(), id) != chain_.nodes.end();
  }

  bool OnlyReadInside(ValueId value) const {
    const std::vector<NodeId>& users = users_[static_cast<size_t>(value.v)];
    return !graph_.IsOutput(value) &&
           std::all_of(users.begin(), users.end(), [&](NodeId user) { return Has(user); });
  }

  // True if no kernel would make x or read the result besides: what it has to walk anyway costs
  // less than a lookup.
  bool StandsAlone() const {
    const auto in_kernel = [&](NodeId id) {
      const OpKind kind = graph_.node(id).op->kind;
      return kind == OpKind::kScalar || kind == OpKind::kReduce || kind == OpKind::kIndex;
    };
    const NodeId maker = graph_.value(chain_.x).producer;
    const std::vector<NodeId>& users = users_[static_cast<size_t>(result_.v)];
    return (maker.v < 0 || !in_kernel(maker)) &&
           std::none_of(users.begin(), users.end(), in_kernel);
  }

  // Unknown extents count as 1.
  bool RowsAreLong() const {
    if (chain_.rows > kMostRows || shape().empty()) return false;
    int64_t inner = 1;
    for (size_t d = 0; d < shape().size(); ++d) {
      const bool in_row = chain_.rows == 1 || d > static_cast<size_t>(chain_.axis);
      if (in_row) inner = std::min(inner * shape()[d].constant().value_or(1), kLeastInner);
    }
    return inner >= kLeastInner;
  }

  const Graph& graph_;
  const ValueId result_;
  std::vector<std::vector<NodeId>> users_;
  Chain chain_;
};

// All bytes in order, as a row of `type`.
Tensor EveryByte(DType type) {
  Tensor bytes = Tensor::Allocate(type, {1, kBytes});
  auto* data = static_cast<uint8_t*>(bytes.data());
  for (int64_t i = 0; i < kBytes; ++i) data[i] = static_cast<uint8_t>(i);
  return bytes;
}

// The chain's values, [rows, 256].
absl::StatusOr<Tensor> TableOf(const Graph& graph, const Chain& chain) {
  Graph table;
  std::vector<ValueId> made(graph.values().size());  // by value of `graph`
  made[static_cast<size_t>(chain.x.v)] =
      table.AddConstant("", EveryByte(graph.value(chain.x).type));
  Group group{Group::Kind::kKernel, {}, {}};
  for (const NodeId id : chain.nodes) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      ValueId here = input.valid() ? made[static_cast<size_t>(input.v)] : input;
      if (input.valid() && !here.valid()) {
        const Tensor dense = graph.value(input).constant->Clone();
        here = table.AddConstant("", Tensor::View(dense.data(), dense.dtype(),
                                                  {dense.num_elements(), 1}, {}, dense.owner()));
        made[static_cast<size_t>(input.v)] = here;
      }
      inputs.push_back(here);
    }
    absl::StatusOr<std::vector<ValueId>> outputs =
        table.AddNode(*node.op, std::move(inputs), node.attrs, node.name, {});
    if (!outputs.ok()) return outputs.status();
    made[static_cast<size_t>(node.outputs[0].v)] = outputs->front();
    group.nodes.push_back(table.value(outputs->front()).producer);
    group.outputs = *std::move(outputs);
  }
  return EvaluateConstants(table, group);
}

Found Lookup(Graph& graph, const Node& node, const PassContext& /*context*/) {
  const ValueId result = node.outputs[0];
  if (node.op->kind != OpKind::kScalar || !IsByte(graph.value(result))) return std::nullopt;
  const std::optional<Chain> chain = Finder(graph, result).Find();
  if (!chain) return std::nullopt;
  absl::StatusOr<Tensor> table = TableOf(graph, *chain);
  if (!table.ok() || table->shape() != std::vector<int64_t>{chain->rows, kBytes})
    return std::nullopt;
  const ValueId rows = graph.AddConstant("", *std::move(table));
  return Made(graph, "lookup", {chain->x, rows}, {{"axis", int64_t{chain->axis}}}, node.name);
}

constexpr Rule kLookupTablesRules[] = {Lookup};

}  // namespace

absl::StatusOr<bool> LookupTables(Graph& graph, const PassContext& context) {
  return Rewrite(graph, kLookupTablesRules, context);
}

}  // namespace kiln
