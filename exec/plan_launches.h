// SPDX-License-Identifier: Apache-2.0
// Launches of kernels, copies and views of a plan in the making.
//
// A launch of more elements than kernels can count (kMostElements) runs in pieces, each a launch
// with base addresses of its own; one that cannot be cut, as a row of more elements, runs on the VM
// with 64-bit indices.
#ifndef KILN_EXEC_PLAN_LAUNCHES_H_
#define KILN_EXEC_PLAN_LAUNCHES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "exec/plan_draft.h"

namespace kiln {

// Makes the launches of thunk `t`, which is no library operator, one for each of its lanes, and
// says in the problem what may share memory. kInvalidArgument: operands that do not fit.
absl::Status PrepareLaunch(PlanDraft& draft, size_t t);

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_LAUNCHES_H_
