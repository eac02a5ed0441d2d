// SPDX-License-Identifier: Apache-2.0
// Some nodes of a graph as a graph of their own, with the values that they had in a run.
//
//   input x : f32 [n, 4]                      nodes {b, c}; of a run with n = 2, without symbols:
//   a = relu(x)                               input a : f32 [2, 4]
//   b = exp(a)                                b = exp(a)
//   c = neg(b)                                c = neg(b)
//   d = add(b, c)                             output b
//   output d                                  output c
#ifndef KILN_TOOLS_GRAPH_PART_H_
#define KILN_TOOLS_GRAPH_PART_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "fusion/group.h"
#include "graph/graph.h"

namespace kiln {

struct GraphPart {
  Graph graph;
  std::vector<Tensor> inputs;  // in its order
  SymbolValues symbols;        // of its inputs' extents
};

struct PartForm {
  // Keeps the symbols that the part's inputs tell, so that it compiles as it does in the graph;
  // else, and where the part cannot be made with them, all extents are numbers.
  bool symbols = true;
  int64_t most_constant_bytes = INT64_MAX;  // constants with more are inputs
};

// A whole run: the graph, its symbols' values, and every value that is no constant.
struct GraphRun {
  const Graph& graph;
  SymbolValues symbols;
  std::map<ValueId, Tensor> values;
};

// What these nodes compute. Values from outside are inputs, and what others than these nodes read,
// or nobody, are outputs. Inputs whose names are no identifiers get others. kUnimplemented for a
// node that owns graphs; else errors as AddNode.
absl::StatusOr<GraphPart> PartOf(const GraphRun& run, const std::set<NodeId>& nodes,
                                 const PartForm& form = {});

// The nodes of a group, the views that lie between them, and what moves elements in front of a
// library call that reads them through strides.
std::set<NodeId> NodesOf(const Graph& graph, const Grouping& grouping, const Group& group);

}  // namespace kiln

#endif  // KILN_TOOLS_GRAPH_PART_H_
