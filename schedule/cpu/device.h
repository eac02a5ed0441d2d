// SPDX-License-Identifier: Apache-2.0
// The model of x86-64 processors with AVX2 or AVX-512.
#ifndef KILN_SCHEDULE_CPU_DEVICE_H_
#define KILN_SCHEDULE_CPU_DEVICE_H_

#include "schedule/device.h"

namespace kiln {

extern const DeviceModel kCpuModel;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_DEVICE_H_
