// SPDX-License-Identifier: Apache-2.0
// Walks the launches of a plan byte by byte: what a launch reads must be what the program says it
// reads, wherever the plan and the caller have put it.
//
// Two states are kept while the steps are walked: one in which every buffer has bytes of its own,
// as in the program, and one of memory, in which buffers lie where the plan has them. A write
// tags its bytes in both; a read must find the same tags in both. So no matter why two buffers
// share memory (lives that do not meet, views, in-place pairs, inputs donated to outputs), a write
// that hits what a later step reads as older data is found. Within a step, operands and scratch may
// not share bytes but for the step's in-place pairs. Repeated steps are walked twice, in all lanes.
// The walk takes the plan's order of the steps, in which steps that touch the same bytes of the
// program, one of them writing, must come as in the program.
//
//   memory: a [0, 64), b [0, 64)    step 0 writes a, step 1 writes b, step 2 reads a
//   plan: step 2 reads buffer 0, byte 0: holds what step 1 wrote, not what step 0 wrote
//
// Nothing here comes from the placer (placement.cc): lives, alias classes and how orders are made
// are not looked at.
// Tests and builds with assertions verify every plan; kVerifyPlans tells.
#ifndef KILN_EXEC_PLAN_VERIFIER_H_
#define KILN_EXEC_PLAN_VERIFIER_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "exec/placement.h"

namespace kiln {

#ifdef NDEBUG
inline constexpr bool kVerifyPlans = false;
#else
inline constexpr bool kVerifyPlans = true;
#endif

// `addresses`: per buffer, where the caller has put it, of inputs and outputs only. Empty: all of
// them apart. kInternal names step, buffer and byte.
absl::Status VerifyPlacement(const PlacementProblem& problem, const Placement& placement,
                             std::span<const int64_t> addresses = {});

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_VERIFIER_H_
