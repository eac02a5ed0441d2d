// SPDX-License-Identifier: Apache-2.0
// Lowering: from a group of nodes to the Kernel that computes it, and what the launch must bind to
// it.
//
// Every axis of every value of the group becomes an ordered list of kernel dims: none for extent 1,
// one in the common case, several where a reshape inside the group splits it. Element-wise nodes,
// reductions and views make axes equal; index nodes read their inputs at index expressions over
// them. One element of a node is a stage of the kernel; the canonical form inlines the cheap and
// single-use ones. Literals and one-element constants become parameters. Offsets and bounds of
// index nodes become size dims, so that a slice at 3 and one at 5 are one kernel.
//
// Example: `y = softmax(x * 0.125)` over [n, 64], decomposed, lowers to the kernel of kernel.h's
// example without the mask, with
//   inputs {x}, input_shapes {[n, 64]}, dims {n, 64}, params {bytes of 0.125f}.
#ifndef KILN_FUSION_LOWER_H_
#define KILN_FUSION_LOWER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fusion/group.h"
#include "graph/graph.h"
#include "kernel/canonical.h"
#include "kiln/dim.h"

namespace kiln {

struct LoweredGroup {
  CanonicalKernel canonical;        // canonical.kernel's text is the heart of the cache key
  std::vector<ValueId> inputs;      // by canonical input; a value may stand twice, read in two ways
  std::vector<Shape> input_shapes;  // the input's memory as the kernel sees it: extents of its dims
  std::vector<ValueId> outputs;     // by canonical output
  std::vector<Shape> output_shapes;  // likewise
  std::vector<Dim> dims;             // extent of each canonical dim
  std::vector<Shape> factors;        // of each: the group's own extents whose product it is
  std::vector<std::string> params;   // bytes of each canonical parameter, in its type
};

// Lowers a group of kind kKernel. kUnimplemented, with a reason for users, if the nodes cannot be
// one kernel; a single node of a verified graph always can, unless its index map is not affine.
// Pure and thread-safe.
absl::StatusOr<LoweredGroup> LowerGroup(const Graph& graph, const Group& group);

}  // namespace kiln

#endif  // KILN_FUSION_LOWER_H_
