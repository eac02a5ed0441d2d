// SPDX-License-Identifier: Apache-2.0
// The CPU as a device that kernels run on.
#ifndef KILN_EXEC_CPU_DEVICE_H_
#define KILN_EXEC_CPU_DEVICE_H_

#include "exec/support/device.h"

namespace kiln {

extern const DeviceRuntime kCpuRuntime;

}  // namespace kiln

#endif  // KILN_EXEC_CPU_DEVICE_H_
