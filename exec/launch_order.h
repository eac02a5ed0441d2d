// SPDX-License-Identifier: Apache-2.0
// Orders of the steps of a plan that may need less memory than the given one.
//
// Steps may run in any order that keeps every dependence: of two steps that touch the same bytes,
// one of them writing, the earlier stays the earlier. Repeated steps (PlacementProblem::Repeat)
// keep their place and order, and no step crosses them.
//
//   given:  a = f(x)  b = g(x)  c = h(a)  d = h(b)      a and b are alive together
//   made:   a = f(x)  c = h(a)  b = g(x)  d = h(b)      if c and d are smaller than a and b
//
// To find the order of least memory is NP-hard. These are three list schedules: by the bytes that a
// step takes less those that it frees, forwards and, on the reversed graph, backwards; and each
// value as late as it is needed, the parts of a step that need most memory first. Nothing here
// tells whether an order is better: the placer (placement.h) takes one only if it lowers the bound
// of live bytes, which is exact.
#ifndef KILN_EXEC_LAUNCH_ORDER_H_
#define KILN_EXEC_LAUNCH_ORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/placement_problem.h"

namespace kiln {

using LaunchOrder = std::vector<int32_t>;  // numbers of steps, each once

// Per step, the steps that come later in the given order and must stay so: enough of them that all
// others follow.
std::vector<std::vector<int32_t>> StepsAfter(const PlacementProblem& problem);

// `roots`: per buffer, the buffer whose memory in the arena it lies in; -1: it lies elsewhere.
// Deterministic. O(e log n) for n steps with e operands and dependences.
std::vector<LaunchOrder> OrdersToTry(const PlacementProblem& problem,
                                     std::span<const int32_t> roots);

// The same problem with its steps in that order, which keeps repeats in their place.
PlacementProblem InOrder(const PlacementProblem& problem, const LaunchOrder& order);

}  // namespace kiln

#endif  // KILN_EXEC_LAUNCH_ORDER_H_
