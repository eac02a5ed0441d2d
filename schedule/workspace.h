// SPDX-License-Identifier: Apache-2.0
// Workspace: the memory that a launch of a kernel takes beside its operands, for stages that a
// schedule stores.
//
// Example, softmax over [1000, 768] in f32: a schedule that makes each stage whole stores exp(x -
// max) for all elements, 3 MB; one that runs row by row stores one row, 3 KB for each thread.
#ifndef KILN_SCHEDULE_WORKSPACE_H_
#define KILN_SCHEDULE_WORKSPACE_H_

#include <cstdint>
#include <span>

#include "kernel/kernel.h"
#include "schedule/schedule.h"

namespace kiln {

// An estimate in bytes: stages that are made whole count once, those of a row or tile for one
// thread. One extent per dim. Pure and thread-safe.
double WorkspaceBytes(const Kernel& kernel, std::span<const int64_t> extents,
                      const Schedule& schedule);

}  // namespace kiln

#endif  // KILN_SCHEDULE_WORKSPACE_H_
