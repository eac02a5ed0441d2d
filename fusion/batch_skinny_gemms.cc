// SPDX-License-Identifier: Apache-2.0
// Products of several values with one constant matrix become one product of all their rows: the
// inputs of the steps of a recurrent network, or two towers that share weights.
//
// Example: y1 = x1 * w, y2 = x2 * w, with x1 and x2 of one row, become y = [x1; x2] * w, y1 =
// y[0:1], y2 = y[1:2]. Few rows take as long as their matrix takes to arrive; together they wait
// for it once. Only for rows that are few beside the matrix, none of which comes from another's
// product, and only where no activation loses its place in the library call.
#include <algorithm>
#include <map>
#include <optional>
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

// What is copied together, and so lives longer than it did, is no more than this or a quarter of
// the matrix.
constexpr int64_t kFewElements = int64_t{1} << 16, kQuarter = 4;  // speed

// A product whose extents are known.
struct Part {
  NodeId product;
  int64_t rows, moved;  // elements that joining moves: of its rows and of its result
};

using Parts = std::vector<Part>;

// Moves and library operators take rows as they lie; so does a product to which they are added.
bool TakesRows(const Graph& graph, const Node& reader, ValueId rows) {
  if (reader.op->kind == OpKind::kIndex || reader.op->kind == OpKind::kLibrary) return true;
  if (!Is(reader, "add")) return false;
  const Node* const other = Producer(graph, reader.inputs[reader.inputs[0] == rows ? 1 : 0]);
  return other != nullptr && Is(*other, "matmul");
}

std::optional<Part> PartOf(const Graph& graph, NodeId id, const std::vector<NodeId>& readers) {
  const Node& node = graph.node(id);
  if (!Is(node, "matmul") || IntAttr(node, "trans_a") != 0) return std::nullopt;
  const Value& weights = graph.value(node.inputs[1]);
  if (!weights.constant || weights.type != DType::kF32 || weights.shape.size() != 2)
    return std::nullopt;
  Part part{id, 1, 0};
  int64_t matrix = 1;
  for (const int64_t extent : weights.constant->shape()) {
    matrix *= extent;
    part.moved += extent;
  }
  const Shape& shape = graph.value(node.outputs[0]).shape;
  if (shape.size() < 2 || shape.size() != graph.value(node.inputs[0]).shape.size())
    return std::nullopt;
  for (size_t k = 0; k + 1 < shape.size(); ++k) {
    const std::optional<int64_t> extent = shape[k].constant();
    if (!extent || *extent < 1 || *extent > matrix) return std::nullopt;
    part.rows *= *extent;
    if (part.rows > matrix) return std::nullopt;
  }
  part.moved *= part.rows;
  const ValueId result = node.outputs[0];
  const bool taken = std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return TakesRows(graph, graph.node(reader), result);
  });
  if (kQuarter * part.moved > matrix || !taken || graph.IsOutput(result)) return std::nullopt;
  return part;
}

// For each node, the most products with `weights` on a path that ends before it: two of equal depth
// do not need each other.
std::vector<int> Depths(const Graph& graph, ValueId weights) {
  std::vector<int> depths(graph.nodes().size(), 0);
  for (size_t i = 0; i < depths.size(); ++i) {
    for (const ValueId input : graph.nodes()[i].inputs) {
      if (!input.valid()) continue;
      const NodeId from = graph.value(input).producer;
      if (from.v < 0) continue;
      const Node& node = graph.node(from);
      const bool counts = Is(node, "matmul") && node.inputs[1] == weights;
      depths[i] = std::max(depths[i], depths[static_cast<size_t>(from.v)] + (counts ? 1 : 0));
    }
  }
  return depths;
}

// The first parts that may be joined, or none: each goes to the first set that has room for it.
Parts FindParts(const Graph& graph) {
  const std::vector<std::vector<NodeId>> users = graph.Users();
  std::map<std::pair<ValueId, bool>, Parts> alike;  // by matrix and how it lies
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const Node& node = graph.node(id);
    if (node.outputs.empty()) continue;
    if (const auto part = PartOf(graph, id, users[static_cast<size_t>(node.outputs[0].v)]))
      alike[{node.inputs[1], IntAttr(node, "trans_b") != 0}].push_back(*part);
  }
  for (const auto& [key, parts] : alike) {
    if (parts.size() < 2) continue;
    const std::vector<int> depths = Depths(graph, key.first);
    const int64_t room =
        std::max(kFewElements, graph.value(key.first).constant->num_elements() / kQuarter);
    std::map<int, std::vector<std::pair<Parts, int64_t>>> sets;  // by depth, with what they move
    for (const Part& part : parts) {
      auto& of_depth = sets[depths[static_cast<size_t>(part.product.v)]];
      auto set = std::find_if(of_depth.begin(), of_depth.end(),
                              [&](const auto& s) { return s.second + part.moved <= room; });
      if (set == of_depth.end()) set = of_depth.insert(set, {Parts(), 0});
      set->first.push_back(part);
      set->second += part.moved;
    }
    for (const auto& [depth, of_depth] : sets) {
      for (const auto& [set, moved] : of_depth) {
        if (set.size() > 1) return set;
      }
    }
  }
  return {};
}

absl::Status Join(Graph& graph, const Parts& parts) {
  GraphBuilder b(&graph);
  const Node first = graph.node(parts[0].product);  // a copy: nodes are added
  const auto columns = [&](ValueId value) { return graph.value(value).shape.back(); };
  std::vector<ValueId> rows;
  for (const Part& part : parts) {
    const ValueId x = graph.node(part.product).inputs[0];
    rows.push_back(b.Op("reshape", {x}, {{"shape", DimsValue({Dim(part.rows), columns(x)})}}));
  }
  const ValueId joined = b.Op("concat", std::move(rows), {{"axis", int64_t{0}}}, first.name);
  const ValueId y = b.Op("matmul", {joined, first.inputs[1]}, first.attrs, first.name);
  int64_t start = 0;
  for (const Part& part : parts) {
    const ValueId result = graph.node(part.product).outputs[0];
    const ValueId slice = b.Op("slice", {y},
                               {{"starts", DimsValue({Dim(start)})},
                                {"ends", DimsValue({Dim(start + part.rows)})},
                                {"axes", DimsValue({Dim(0)})}});
    const ValueId shaped =
        b.Op("reshape", {slice}, {{"shape", DimsValue(graph.value(result).shape)}});
    KILN_RETURN_IF_ERROR(b.status());
    graph.ReplaceUses(result, shaped);
    start += part.rows;
  }
  return graph.Sort();
}

}  // namespace

absl::StatusOr<bool> BatchSkinnyGemms(Graph& graph, const PassContext&) {
  bool changed = false;
  for (Parts parts = FindParts(graph); !parts.empty(); parts = FindParts(graph)) {
    KILN_RETURN_IF_ERROR(Join(graph, parts));
    graph.RemoveDead();
    changed = true;
  }
  return changed;
}

}  // namespace kiln
