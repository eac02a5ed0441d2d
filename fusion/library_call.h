// SPDX-License-Identifier: Apache-2.0
// Library calls: what of a graph a library operator does in one call.
//
// Above level 1 a convolution or matrix product takes along what costs nothing there: transposes
// and slices of its operands become strides, and the element-wise nodes that follow become
// post-ops (exec/library/post_ops.h), as long as each reads the one before and nobody else does:
//
//   y = relu(conv(transpose(x)) + bias + skip)     one call: x strided; add, add, relu
//
// This is decided before grouping; what is left over goes to kernels. A chain that ends in a plain
// multiple (a scale before a softmax) leaves it to the kernel that follows, where it is free.
#ifndef KILN_FUSION_LIBRARY_CALL_H_
#define KILN_FUSION_LIBRARY_CALL_H_

#include <string>
#include <vector>

#include "fusion/device_call.h"
#include "fusion/strided_view.h"
#include "graph/graph.h"

namespace kiln {

struct LibraryPostOp {
  std::string name;
  std::vector<double> numbers;
};

struct LibraryCall {
  NodeId op;
  std::vector<NodeId> nodes;        // all that it does, in order; op first
  std::vector<StridedView> inputs;  // of the operator, then the operands of post-ops
  std::vector<LibraryPostOp> post_ops;
  StridedView output;   // the operator's output; base: the value that is written
  std::string stopped;  // why the next node is no post-op; empty: nothing follows
};

// So many products read one matrix, as a stack of its panels, that it is written as such once
// (shared_panels.cc): packing it takes about as long as two of them gain.
inline constexpr size_t kLeastSharers = 3;  // speed

// One call for each node of kind kLibrary, by node; `op` is invalid for all others. Below level 2
// a call does its node and no more. A pure function.
std::vector<LibraryCall> FindLibraryCalls(const Graph& graph, int level,
                                          const LibraryRules& rules = {});

}  // namespace kiln

#endif  // KILN_FUSION_LIBRARY_CALL_H_
