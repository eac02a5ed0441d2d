// SPDX-License-Identifier: Apache-2.0
// Candidates: the schedules that a kernel may run with on a device, and what they cost.
#ifndef KILN_SCHEDULE_CANDIDATES_H_
#define KILN_SCHEDULE_CANDIDATES_H_

#include <vector>

#include "kernel/kernel.h"
#include "schedule/machine.h"
#include "schedule/price.h"
#include "schedule/schedule.h"
#include "schedule/scheduler.h"

namespace kiln {

struct Candidate {
  Schedule schedule;
  Price price;
};

// The chosen one first. For a verified kernel; bounds of `sizes` are its extents where they are
// known. Pure and thread-safe.
std::vector<Candidate> CandidatesFor(const Kernel& kernel, const SizeClass& sizes,
                                     const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CANDIDATES_H_
