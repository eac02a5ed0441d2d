// SPDX-License-Identifier: Apache-2.0
// The price of a kernel on the CPU, with one thread.
//
// A kernel starts, moves its operands through the memory hierarchy, computes, and starts a loop for
// every row and stage that it stores. Memory traffic and computation overlap but for a part. Stages
// are counted as the schedule runs them: a map that is not stored is computed where it is read,
// once a row where it does not vary along the row.
//
// Example: relu(x) over 1 M floats with GbPerS(8 MB) = 10: launch + 0.8 ms.
#ifndef KILN_SCHEDULE_CPU_PRICE_H_
#define KILN_SCHEDULE_CPU_PRICE_H_

#include <cstdint>
#include <span>

#include "schedule/price.h"
#include "schedule/schedule.h"

namespace kiln {

// DeviceModel::price.
Price CpuPriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
                 const Schedule& schedule);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_PRICE_H_
