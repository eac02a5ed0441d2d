// SPDX-License-Identifier: Apache-2.0
// Keeps the order in which a reduction combines its elements what the operator says, whatever the
// group around it looks like.
//
// The operator's operand and axes fix the tree before grouping: neighbouring reduced axes are one
// (a run), the run with the last axis is reduced by the lane rule, every other one by the row rule,
// innermost first. A Kernel says the same by position: its innermost iterated dim has the lane rule
// (kernel.h). So a group is lowered only if every run of its float reductions is one dim of the
// canonical kernel, and that dim is the innermost one exactly where the run takes the lane rule.
// Bits do then not depend on grouping, on transposes, or on which extents are known or 1.
//
// Dims of extent 1 are dropped in lowering. Where that would move a run to another rule, or two
// runs next to each other, one dim of extent 1 stays in its place. Example: the sum of f32 [n, 1]
// over axis 0 is that of [n, m], with m = 1:
//   dims a b        in 0 f32 [a, b] dense        s0 : f32 [b] = reduce add over a (in0[a, b])
//
// Reductions of integers and bools give the same bits in any order and are left alone.
#ifndef KILN_FUSION_REDUCTION_RUNS_H_
#define KILN_FUSION_REDUCTION_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "fusion/emit.h"
#include "kernel/canonical.h"

namespace kiln {

// Unit dim k, of extent 1, is kFirstUnit + k.
inline constexpr int32_t kFirstUnit = 1 << 23;  // correctness

// Adds unit dims to `emitted` and to the iteration order, outermost first, where runs need them.
void KeepRunsApart(EmittedGroup& emitted, std::vector<int32_t>& order);

// kUnimplemented, with a reason for users, if a run is not one dim of `canonical`, or one with the
// other rule. `emitted` has its final dim numbers, which `canonical` was made from.
absl::Status CheckRuns(const EmittedGroup& emitted, const CanonicalKernel& canonical);

}  // namespace kiln

#endif  // KILN_FUSION_REDUCTION_RUNS_H_
