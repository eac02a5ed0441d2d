// SPDX-License-Identifier: Apache-2.0
// The choice of a schedule: the candidate that costs least, of all templates that accept a kernel.
//
// Example, for a softmax over [a, b] with b = 768 and a symbolic:
//   for (const SizeClass& sizes : SizeClassesFor(kernel, {{kUnbounded, 768}}, target))
//     Compile(kernel, ChooseSchedule(kernel, sizes, machine));
//
// Everything here is pure and thread-safe: equal arguments give equal schedules.
#ifndef KILN_SCHEDULE_CHOOSE_H_
#define KILN_SCHEDULE_CHOOSE_H_

#include <span>
#include <vector>

#include "base/decision.h"
#include "base/target.h"
#include "kernel/kernel.h"
#include "schedule/device.h"
#include "schedule/machine.h"
#include "schedule/price.h"
#include "schedule/schedule.h"
#include "schedule/size_class.h"

namespace kiln {

struct Candidate {
  Schedule schedule;
  double ns = 0;  // for the extents of the class; see RepresentativeExtents
};

// Yes if some template of the target accepts the kernel; else what each of them says.
Decision AcceptsKernel(const Kernel& kernel, Target target);

// What the templates offer for a kernel that is accepted, cheapest first; of equal ones that which
// was offered first. With a `workspace_limit` in bytes, those that need no more (workspace.h) at
// the extents that the class is priced for; if all need more, the one that needs least. 0: none.
std::vector<Candidate> CandidatesFor(const Kernel& kernel, const SizeClass& sizes,
                                     const Machine& machine, int64_t workspace_limit = 0);

// The first of them.
Schedule ChooseSchedule(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                        int64_t workspace_limit = 0);

// The size classes for which separate code pays, given what is known; tried in order, the last
// contains all that code is right for. They are cut where a reduction takes one more level.
std::vector<SizeClass> SizeClassesFor(const Kernel& kernel, const SizeClass& known);

// The tuples of extents that a class is priced for: its extents, with each number of `open`
// (DeviceModel::open_extents), as far as they lie in the class, for those that are open. The price
// of a class is the geometric mean.
std::vector<std::vector<int64_t>> RepresentativeExtents(
    const SizeClass& sizes, std::span<const int64_t> open = ModelOf(DefaultDevice()).open_extents);

// The cost of the cheapest schedule for these extents.
Price PriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CHOOSE_H_
