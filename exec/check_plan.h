// SPDX-License-Identifier: Apache-2.0
// The check of a plan by a run in memory of its own (RunOptions::check_first_run): that every
// launch writes to its outputs and nowhere else.
//
//   KILN_RETURN_IF_ERROR(CheckPlan(separate_plan, inputs, launcher, runtime, count));
//   // "check_first_run: thunk 3 "relu" writes beyond its operands: 4 bytes after buffer 5 "t""
//
// Memory is laid out with gaps of known bytes between all buffers, and there is a second copy of
// it, to which what a launch may write is copied after it has run. Then the gaps, what it read, and
// the rest of the buffers that it wrote must be as in the copy; so must what the next launch reads.
// If something has changed that no launch of these could tell, the plan runs once more, and
// everything is compared after each launch. Constants have checksums in place of the copy.
#ifndef KILN_EXEC_CHECK_PLAN_H_
#define KILN_EXEC_CHECK_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "exec/plan.h"
#include "exec/plan_cache.h"
#include "exec/runtime_state.h"
#include "exec/support/launch.h"

namespace kiln {

// A plan with separate buffers that may be watched. `inputs` are only read. The memory is the
// runtime's, and counted in `count` meanwhile; on a device it is that of `queue`, and copied to
// the host to be looked at. kInternal: the first fault; errors of the run.
absl::Status CheckPlan(const std::shared_ptr<const ExecutionPlan>& plan, const BoundTensors& inputs,
                       Launcher& launcher, const std::shared_ptr<Runtime>& runtime,
                       const std::shared_ptr<std::atomic<int64_t>>& count,
                       DeviceQueue* queue = nullptr);

}  // namespace kiln

#endif  // KILN_EXEC_CHECK_PLAN_H_
