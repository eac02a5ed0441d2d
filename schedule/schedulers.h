// SPDX-License-Identifier: Apache-2.0
// The schedulers of the CPU, one file each; see scheduler.h.
#ifndef KILN_SCHEDULE_SCHEDULERS_H_
#define KILN_SCHEDULE_SCHEDULERS_H_

#include "schedule/scheduler.h"

namespace kiln {

extern const Scheduler kPointwiseScheduler;
extern const Scheduler kRowScheduler;
extern const Scheduler kColumnScheduler;
extern const Scheduler kCrossScheduler;
extern const Scheduler kSweepScheduler;
extern const Scheduler kGeneralScheduler;

// The choice of kRowScheduler, where short rows may go through a stage by `several` or one by one.
Params RowParams(const Kernel& kernel, const SizeClass& sizes, const MachineProfile& profile,
                 bool several);

}  // namespace kiln

#endif  // KILN_SCHEDULE_SCHEDULERS_H_
