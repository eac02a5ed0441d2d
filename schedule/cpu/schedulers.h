// SPDX-License-Identifier: Apache-2.0
// The schedulers of the CPU, one file each; see scheduler.h.
#ifndef KILN_SCHEDULE_CPU_SCHEDULERS_H_
#define KILN_SCHEDULE_CPU_SCHEDULERS_H_

#include <span>

#include "schedule/scheduler.h"

namespace kiln {

extern const Scheduler kPointwiseScheduler;
extern const Scheduler kRowScheduler;
extern const Scheduler kColumnScheduler;
extern const Scheduler kCrossScheduler;
extern const Scheduler kSweepScheduler;
extern const Scheduler kGeneralScheduler;

// All of them, in the order of DeviceModel::schedulers.
std::span<const Scheduler> CpuSchedulers();

// The choice of kRowScheduler, where short rows may go through a stage by `several` or one by one.
Schedule ChooseRows(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                    bool several);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_SCHEDULERS_H_
