// SPDX-License-Identifier: Apache-2.0
// Recomputation: what a kernel reads of an earlier one, which it cannot join, it may compute again
// from less.
//
//   forward   y = gelu(x): needs erf(x / sqrt(2)), which the gradient needs, too
//   z = matmul(y, w), ...
//   backward  dx = f(dy, x, erf(x / sqrt(2))): reads x, and computes the error function again, if
//             that takes less time than to write and read it
//
// What passes between two kernels is a cut of the nodes of the first: a value is read, or computed
// from others that are. Both have a price, bytes that pass through memory and operations, and the
// cheapest cut is a minimum cut of a flow network. Reductions are never repeated; what they give is
// small. The most bytes that are alive at once do not grow.
#ifndef KILN_FUSION_RECOMPUTE_H_
#define KILN_FUSION_RECOMPUTE_H_

#include "absl/status/statusor.h"
#include "fusion/group.h"
#include "graph/graph.h"

namespace kiln {

// FormGroups, and again with nodes computed twice where that lowers the price of all kernels
// together. Such nodes are added to `graph`, and have the names of those that they repeat; no bit
// of a result changes. Below level 3 or without fusion, FormGroups alone. Errors are FormGroups'.
absl::StatusOr<Grouping> FormGroupsAndRecompute(Graph& graph, const GroupOptions& options);

}  // namespace kiln

#endif  // KILN_FUSION_RECOMPUTE_H_
