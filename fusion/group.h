// SPDX-License-Identifier: Apache-2.0
// Grouping: which nodes of a Graph run together as one kernel.
//
// A group is a convex set of nodes. A set is legal exactly if it lowers to one Kernel (lower.h)
// that a schedule template made for its shape accepts; whether a legal merge is made is a question
// of benefit: it must save a trip through memory and must not compute expensive elements twice.
// Every edge of the graph gets an EdgeDecision with a reason that a user can read.
//
// Views (reshape, squeeze, ...) belong to no kernel: lowering looks through those that lie between
// nodes of one group, and the others stand as groups of kind kView. Nodes whose values only
// describe shapes that inference already knows stand nowhere.
//
// Example: x -> mul -> softmax (five nodes) -> reshape -> matmul gives {kernel: mul, softmax},
// {view: reshape}, {library: matmul}.
#ifndef KILN_FUSION_GROUP_H_
#define KILN_FUSION_GROUP_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusion/library_call.h"
#include "graph/graph.h"
#include "schedule/machine.h"

namespace kiln {

struct Group {
  enum class Kind : uint8_t {
    kKernel,   // scalar, reduce and index nodes: one generated kernel
    kView,     // one node: its output is its first input's memory
    kLibrary,  // a library operator with what its call takes along
    kHost,     // one node: runs on the host (shape arithmetic, control flow)
  };
  Kind kind = Kind::kKernel;
  std::vector<NodeId> nodes;  // ascending
  // Values of these nodes that others, or the graph's user, need; ascending.
  std::vector<ValueId> outputs;
  std::optional<LibraryCall> call = {};  // kLibrary
};

// Why a value flows, or does not flow, inside a kernel. Views between the two nodes are looked
// through.
struct EdgeDecision {
  NodeId producer;
  NodeId consumer;
  bool fused = false;
  std::string reason;  // empty when fused into a kernel
  int64_t bytes = 0;   // of the value; unknown extents count as 32
};

struct Grouping {
  std::vector<Group> groups;        // in an order in which they can run
  std::vector<EdgeDecision> edges;  // by consumer, then producer
};

// Which merges are made, among those that are legal.
enum class FusionRules : int {
  kPriced,  // those that pay
  // As MegEngine's JIT has it, for comparison: a group has one output, one shape before its
  // reductions, and nothing is broadcast inside it.
  kGreedy,
};

struct GroupOptions {
  int level = 3;      // below 3 no kernels are fused, below 2 every node stands alone
  int jit_level = 2;  // 0 none, 1 element-wise, 2 with reductions
  FusionRules rules = FusionRules::kPriced;
  std::set<std::string> alone = {};  // names of nodes that join no group
  // Names of producers and consumers that are fused though it does not pay, where that is legal.
  std::set<std::pair<std::string, std::string>> forced = {};
  const Machine* machine = nullptr;  // for prices; null: the one shipped for x86-64-v3
  LibraryRules library = {};
};

const char* Name(Group::Kind kind);
// One line per group and one per edge, for dumps and `kiln explain`.
std::string ToString(const Grouping& grouping, const Graph& graph);
// Graphviz: one cluster per group of several nodes, one arrow per edge, dashed where it passes
// through memory, with its bytes.
std::string ToDot(const Grouping& grouping, const Graph& graph);

}  // namespace kiln

#endif  // KILN_FUSION_GROUP_H_
