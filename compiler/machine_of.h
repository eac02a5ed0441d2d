// SPDX-License-Identifier: Apache-2.0
// What options (kiln/options.h) come to: the target, and the description of its machine.
#ifndef KILN_COMPILER_MACHINE_OF_H_
#define KILN_COMPILER_MACHINE_OF_H_

#include "exec/plan_info.h"
#include "fusion/group.h"
#include "kiln/options.h"
#include "schedule/device.h"

namespace kiln {

// What these options ask for: the target, and the description by which groups and schedules are
// chosen, which lives as long as `options`: that of `machine` if it describes the target.
inline Target TargetOf(const CompileOptions& options) {
  return options.target.value_or(HostTarget());
}
inline const Machine& MachineOf(const CompileOptions& options) {
  const Target target = TargetOf(options);
  const bool fits = options.machine && options.machine->target == target;
  return fits ? *options.machine : ShippedMachine(target);
}

}  // namespace kiln

#endif  // KILN_COMPILER_MACHINE_OF_H_
