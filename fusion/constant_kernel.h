// SPDX-License-Identifier: Apache-2.0
// What a group of nodes gives whose inputs are all constants, by the kernel that it would be.
#ifndef KILN_FUSION_CONSTANT_KERNEL_H_
#define KILN_FUSION_CONSTANT_KERNEL_H_

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "fusion/group.h"
#include "graph/graph.h"

namespace kiln {

// The one output of `group`, of kind kKernel: the bits of a run. Its extents must be numbers.
// Slow: some hundred nanoseconds an element.
absl::StatusOr<Tensor> EvaluateConstants(const Graph& graph, const Group& group);

}  // namespace kiln

#endif  // KILN_FUSION_CONSTANT_KERNEL_H_
