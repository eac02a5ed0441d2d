// SPDX-License-Identifier: Apache-2.0
// A plan in the making, before its buffers have places: every size and operand with numbers, the
// tilings, and a launch of each thunk that knows all but addresses.
//
//   SizeProgram        buffers, operands                 from expressions and extents
//   plan_threads.h     tilings, lanes                    by work
//   plan_launches.h    launches of kernels, copies       operands checked
//   plan_calls.h       launches of library operators     primitives made, in parallel
//   placement.h        where buffers lie                 then plan_arguments.h fills in addresses
#ifndef KILN_EXEC_PLAN_DRAFT_H_
#define KILN_EXEC_PLAN_DRAFT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/batch_tiling.h"
#include "exec/checked_program.h"
#include "exec/operands.h"
#include "exec/placement.h"
#include "exec/plan_step.h"
#include "exec/provider.h"

namespace kiln {

struct PlanDraft {
  explicit PlanDraft(const CheckedProgram& checked) : program(checked) {}

  const CheckedProgram& program;
  PlacementProblem problem;
  std::vector<std::vector<int64_t>> output_shapes;
  std::vector<bool> absent;  // per buffer
  // Per thunk:
  std::vector<bool> needed;  // by a wanted output
  std::vector<Operands> operands;
  std::vector<int64_t> lanes;                     // of its tiling; 1 outside
  std::vector<std::vector<PlanLaunch>> launches;  // one per lane; empty: there is nothing to do
  std::vector<BatchTiling> tilings;
  std::vector<std::shared_ptr<KernelHandle>> kernels;  // that launches name by number
  size_t states = 0;                                   // likewise, of library launches
  int64_t packed_bytes = 0;
};

// The sizes of buffers and outputs, and the operands of the thunks that are needed. As
// ExecutionPlan::Create, with its errors.
absl::StatusOr<PlanDraft> SizeProgram(const CheckedProgram& program, const SymbolValues& symbols,
                                      const std::vector<bool>& present,
                                      const std::vector<bool>& wanted);

// An error that names the thunk; OK stays.
absl::Status OfThunk(const CheckedProgram& program, size_t t, const absl::Status& status);

// Whether no operand has an element.
bool AllEmpty(const std::vector<ResolvedRef>& refs);

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_DRAFT_H_
