// SPDX-License-Identifier: Apache-2.0
// The loops of a schedule of the CPU in text: see schedule/picture.h, which has an example.
#ifndef KILN_SCHEDULE_CPU_PICTURE_H_
#define KILN_SCHEDULE_CPU_PICTURE_H_

#include <cstdint>
#include <span>
#include <string>

#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace kiln {

// DeviceModel::picture.
std::string CpuPicture(const Kernel& kernel, std::span<const int64_t> extents,
                       const Schedule& schedule, const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_PICTURE_H_
