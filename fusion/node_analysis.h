// SPDX-License-Identifier: Apache-2.0
// What grouping knows of each node of a graph before it merges anything.
#ifndef KILN_FUSION_NODE_ANALYSIS_H_
#define KILN_FUSION_NODE_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "fusion/group.h"
#include "fusion/library_call.h"
#include "fusion/node_reads.h"
#include "graph/graph.h"
#include "kernel/scalar_expr.h"

namespace kiln {

// A value that one node makes and another reads; views between them are looked through.
struct DataEdge {
  NodeId producer;
  NodeId consumer;
  ValueId value;  // of the producer
  int64_t bytes = 0;
  bool viewed = false;  // a view lies between
  // How often an element is read, over all elements of the consumer, by reads that run with them.
  int64_t repeats = 1;
};

struct NodeAnalysis {
  bool live = false;
  Group::Kind kind = Group::Kind::kKernel;
  bool reduces = false;
  bool plain = false;   // scalar; every output has the node's shape
  int64_t cost = 0;     // of one element, in additions
  double elements = 0;  // that it computes
  // What an index node reads, if all of it lies along the node's own dims, at most offset by
  // numbers, and no bound is checked.
  std::optional<NodeReads> moves = {};
  int call = -1;  // kLibrary: into GraphAnalysis::calls; the nodes of a call share it
};

struct GraphAnalysis {
  std::vector<NodeAnalysis> nodes;  // by node
  std::vector<ValueId> root;        // by value: itself, or what it is a view of
  std::vector<DataEdge> edges;  // between live nodes that are no views; by consumer, then producer
  std::vector<LibraryCall> calls;
};

// Functions, division and roots count as so many additions.
inline constexpr int64_t kExpensive = 8;  // speed

// Of one evaluation, in additions.
int64_t CostOf(const ScalarExpr& expr);

// `level` is the optimisation level: what library calls take along depends on it, and on `rules`.
absl::StatusOr<GraphAnalysis> Analyse(const Graph& graph, int level,
                                      const LibraryRules& rules = {});

// Elements, and bytes, of a value; unknown extents count as 32.
int64_t EstimatedElements(const Shape& shape);
int64_t EstimatedBytes(const Value& value);
bool HasOneElement(const Value& value);  // whatever extents are unknown

}  // namespace kiln

#endif  // KILN_FUSION_NODE_ANALYSIS_H_
