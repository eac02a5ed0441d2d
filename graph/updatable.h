// SPDX-License-Identifier: Apache-2.0
// Constants of a graph as inputs, so that a run may have other values in their place.
//
//   KILN_ASSIGN_OR_RETURN(UpdatableGraph made, MakeUpdatable(graph, {"w"}));
//   made.graph.inputs().back();   // "w", of the constant's type and shape
//   made.values[0];               // what it was
//
//   input x : f32 [n, 4]                  input x : f32 [n, 4]
//   const w : f32 [4, 8] = ...            input w : f32 [4, 8]
//   y : f32 [n, 8] = matmul(x, w)         y : f32 [n, 8] = matmul(x, w)
#ifndef KILN_GRAPH_UPDATABLE_H_
#define KILN_GRAPH_UPDATABLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct UpdatableGraph {
  Graph graph;
  std::vector<Tensor> values;  // in the order of the names
};

// The new inputs stand behind the graph's own, in the order of `names`. All nodes are inferred
// again; what else the graph assumes stays. kInvalidArgument: there is no such constant, or a node
// needs its value to be known.
absl::StatusOr<UpdatableGraph> MakeUpdatable(const Graph& graph,
                                             const std::vector<std::string>& names);

// The values alone.
absl::StatusOr<std::vector<Tensor>> ConstantsNamed(const Graph& graph,
                                                   const std::vector<std::string>& names);

// The error where `name` is none of the constants `names`.
absl::Status NoSuchConstant(const std::string& name, const std::vector<std::string>& names);

}  // namespace kiln

#endif  // KILN_GRAPH_UPDATABLE_H_
