// SPDX-License-Identifier: Apache-2.0
// Copies of inputs to a device go before the launches that they stand between, and copies of
// outputs from there behind them, so that launches follow each other and can be one sequence
// (support/compute_device.h):
//
//   kernel a; copy of x; kernel b; copy to y; kernel c
//   copy of x; kernel a; kernel b; kernel c; copy to y
//
// A copy passes what touches no byte of its place on the device and does not work in the host's
// memory. Small operands have a place of their own from the beginning, or to the end
// (PlacementProblem::Buffer::early, late); larger ones share memory, and may cut launches in two.
#ifndef KILN_EXEC_COPY_ORDER_H_
#define KILN_EXEC_COPY_ORDER_H_

#include "exec/placement_problem.h"
#include "exec/plan_draft.h"

namespace kiln {

// Before buffers are placed.
void ReservePlacesOfCopies(PlanDraft& draft);
// Afterwards: changes placement.order.
void OrderCopies(const PlanDraft& draft, Placement& placement);

}  // namespace kiln

#endif  // KILN_EXEC_COPY_ORDER_H_
