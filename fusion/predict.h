// SPDX-License-Identifier: Apache-2.0
// Prediction: the time of every group of a Grouping on a machine, with one thread.
//
// Kernels by price.h. Library operators walk their operands, and products and convolutions
// multiply at the machine's gflops. Views and host groups take nothing. Unknown extents count as
// 32.
#ifndef KILN_FUSION_PREDICT_H_
#define KILN_FUSION_PREDICT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "fusion/group.h"
#include "graph/graph.h"
#include "schedule/machine.h"

namespace kiln {

// In ns, one per group. Fails as LowerGroup, which a grouping of this graph does not.
absl::StatusOr<std::vector<double>> PredictNs(const Graph& graph, const Grouping& grouping,
                                              const Machine& machine);

}  // namespace kiln

#endif  // KILN_FUSION_PREDICT_H_
