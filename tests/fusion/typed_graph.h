// SPDX-License-Identifier: Apache-2.0
// Random graphs over all types, with the inputs at which types differ: NaN, infinities, zeros of
// both signs, denormals, integer extremes, values that 16-bit floats round or overflow at.
//
// Nodes are element-wise ones, casts, reductions, composites and moves, over values of no to four
// axes, whose extents are numbers or symbols. There are no library operators: every level of
// optimisation, the VM and compiled code have to give the same bits.
#ifndef KILN_TESTS_FUSION_TYPED_GRAPH_H_
#define KILN_TESTS_FUSION_TYPED_GRAPH_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct TypedGraph {
  Graph graph;
  std::vector<Tensor> inputs;  // in the order of the graph's
};

struct TypedGraphOptions {
  int64_t most_elements = 300;  // of an input
  int most_nodes = 14;
};

// Equal seeds and options give equal graphs.
absl::StatusOr<TypedGraph> MakeTypedGraph(uint64_t seed, const TypedGraphOptions& options = {});

// `type`'s values at which rounding, overflow, signs and comparisons are decided.
Tensor BoundaryValues(DType type);

// A dense tensor of ordinary and of boundary values.
Tensor TypedNoise(DType type, std::vector<int64_t> shape, std::mt19937_64& random);

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_TYPED_GRAPH_H_
