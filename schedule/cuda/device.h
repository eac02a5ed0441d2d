// SPDX-License-Identifier: Apache-2.0
// The model of NVIDIA GPUs of compute capability 8.0 and later.
#ifndef KILN_SCHEDULE_CUDA_DEVICE_H_
#define KILN_SCHEDULE_CUDA_DEVICE_H_

#include "schedule/device.h"

namespace kiln {

extern const DeviceModel kCudaModel;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_DEVICE_H_
