// SPDX-License-Identifier: Apache-2.0
// Emission: the second half of lowering. Writes the stages and outputs of a group whose axes are
// known (group_axes.h).
//
// Every value that runs with the kernel's dims is a stage of its own; values that an index node
// reads elsewhere are computed where they are read. Dims are still atoms here: the result numbers
// an iterated dim by its atom and a size by kFirstSize + k.
#ifndef KILN_FUSION_EMIT_H_
#define KILN_FUSION_EMIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "fusion/group_axes.h"
#include "kernel/kernel.h"

namespace kiln {

inline constexpr int32_t kFirstSize = 1 << 24;  // correctness

// Neighbouring axes of a reduction's operand that are reduced: to the tree of the reduction they
// are one axis. By lanes if the operand's last axis is among them, else by rows (kernel.h).
struct ReducedRun {
  std::vector<int32_t> dims;  // in axis order; axes of extent 1 have none
  bool by_lanes = false;
};

struct EmittedGroup {
  Kernel kernel;  // `dims` is empty: ids are atoms and sizes; stage dims are in axis order
  std::vector<std::vector<ReducedRun>> runs;  // by stage; none of a map
  std::vector<ValueId> inputs;                // of the graph, by kernel input
  std::vector<Dim> sizes;                     // extent of size kFirstSize + k
  std::vector<int32_t> summed;                // dims of what a scatter's output adds, in order
};

// `outputs` in the order of the kernel's outputs. kUnimplemented, with a reason, if the group
// cannot be one kernel.
absl::StatusOr<EmittedGroup> EmitGroup(const GroupAxes& group, const std::vector<ValueId>& outputs);

}  // namespace kiln

#endif  // KILN_FUSION_EMIT_H_
