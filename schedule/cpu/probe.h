// SPDX-License-Identifier: Apache-2.0
// What a machine description says of caches and memory, found by loops of our own on this
// processor: no kernel is compiled.
#ifndef KILN_SCHEDULE_CPU_PROBE_H_
#define KILN_SCHEDULE_CPU_PROBE_H_

#include "schedule/machine.h"

namespace kiln {

// Sets l1, l2, l3, latency and jump, in about a second and with 64 MiB. Caches whose size the
// system does not tell stay as they are.
void ProbeCpu(Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_PROBE_H_
