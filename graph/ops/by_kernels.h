// SPDX-License-Identifier: Apache-2.0
// Library operators written as scalar, reduce and index nodes, for devices without a library: each
// is then one kernel with one reduction, right and with the bits of any kernel, but without the
// reuse of operands that makes a library fast.
//
//   matmul [m, k] x [k, n]   sum over axis 1 of a[m, k, 1] * b[1, k, n]
//   conv                     sum over k of w[m, k] * x[k, p]: k counts channels and offsets of the
//                            window, p output places; x is gathered at offset(k) + begin(p)
//   pool                     as conv, with a maximum or mean over the offsets
//
// Each is the `by_kernels` of a record. kUnimplemented, before a node is added, where the window's
// places are not known: with spatial extents that are no numbers.
#ifndef KILN_GRAPH_OPS_BY_KERNELS_H_
#define KILN_GRAPH_OPS_BY_KERNELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln::ops {

absl::StatusOr<std::vector<ValueId>> MatmulByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> MatmulIntegerByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> ConvByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> ConvIntegerByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> ConvTransposeByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> ConvBackwardWeightsByKernels(GraphBuilder& b,
                                                                  const Node& node);
absl::StatusOr<std::vector<ValueId>> MaxPoolByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> AveragePoolByKernels(GraphBuilder& b, const Node& node);

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_BY_KERNELS_H_
