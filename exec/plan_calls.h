// SPDX-License-Identifier: Apache-2.0
// Launches of library operators of a plan in the making: their primitives.
#ifndef KILN_EXEC_PLAN_CALLS_H_
#define KILN_EXEC_PLAN_CALLS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "exec/library/library.h"
#include "exec/library/measured.h"
#include "exec/plan_draft.h"
#include "exec/support/compute_device.h"

namespace kiln {

// Makes a primitive for each lane of each library thunk that is needed, with the threads that
// `sessions` has for it (null: it is none), several at a time: oneDNN takes about half a
// millisecond to generate the code of one. One at a time where what is measured is to be compared,
// and where the sessions have one thread. Those on a device are `device`'s calls, and the host's on
// copies where it takes none. Errors name the thunk, the first of those that fail.
absl::Status PrepareCalls(PlanDraft& draft,
                          const std::vector<std::shared_ptr<library::Session>>& sessions,
                          const library::Choosing& choosing, ComputeDevice* device = nullptr);

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_CALLS_H_
