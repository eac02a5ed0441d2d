// SPDX-License-Identifier: Apache-2.0
// Where every buffer of a plan lies: which buffers share memory, and at which offset of the arena
// the rest goes; and the order in which its steps run.
//
// Buffers in one alias class lie in the memory of the class's root. A class forms by, in this
// order,
//   fixed aliases   a buffer is a range of another (views, parts of a concat)
//   views           the output is the input's memory; where the output is the caller's memory the
//                   temporary moves there
//   parts           a view into a part of its output: the input lies there, in a whole that only
//                   such parts write
//   in-place pairs  the output takes the input's memory if the whole class of the input is a
//                   temporary that nothing touches later and nothing else in this step touches
// Buffers of two devices are never in one class.
// A view that cannot be one (an input that is also an output) becomes a copy. Classes of
// temporaries are intervals in steps and go into one arena. Example: x -> relu -> t -> exp -> y
// with in-place pairs: t lies in y, the arena is empty.
//
// Where there is a choice, the lowest bound of live bytes decides: whether views of parts, parts of
// wholes and some in-place pairs share memory (alias_classes.h), and whether the steps run in
// another order than the given one (launch_order.h). Of equals, memory is shared, and the given
// order stays.
#ifndef KILN_EXEC_PLACEMENT_H_
#define KILN_EXEC_PLACEMENT_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "exec/placement_problem.h"

namespace kiln {

// kInvalidArgument if a step reads what nothing wrote, writes an input or constant, or overlaps its
// own operands. Accesses and buffer numbers are the caller's to check. What lies in the arena is
// verified; plan_verifier.h has all of it.
// With `separate`, no two classes share memory, launches do not work in place, and kArenaAlignment
// bytes lie between a class and the next. Without, `plan` gives the offsets; null: PlanMemory does.
using PlanMemoryFn =
    std::function<absl::StatusOr<MemoryPlan>(std::span<const Interval>, int64_t alignment)>;
absl::StatusOr<Placement> PlaceBuffers(const PlacementProblem& problem, bool separate = false,
                                       const PlanMemoryFn& plan = nullptr);

// The same in the given order.
absl::StatusOr<Placement> PlaceInOrder(const PlacementProblem& problem);

}  // namespace kiln

#endif  // KILN_EXEC_PLACEMENT_H_
