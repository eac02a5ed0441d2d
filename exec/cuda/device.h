// SPDX-License-Identifier: Apache-2.0
// CUDA as a device that kernels run on: which sections of an entry its code is. What loads and runs
// it is a ComputeDevice, in a module (module.cc).
#ifndef KILN_EXEC_CUDA_DEVICE_H_
#define KILN_EXEC_CUDA_DEVICE_H_

#include "exec/support/device.h"

namespace kiln {

inline constexpr DeviceRuntime kCudaRuntime = {
    .device = DeviceKind::kCuda,
    .section = "ptx",
    .machine_code = "cubin",
    .recipe = "launch",
    .figures = "ptxas",
    .emulated = "cuda-emulated",
    .host_memory = false,
};

}  // namespace kiln

#endif  // KILN_EXEC_CUDA_DEVICE_H_
