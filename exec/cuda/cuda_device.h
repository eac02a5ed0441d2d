// SPDX-License-Identifier: Apache-2.0
// A GPU, or an emulated one, as a ComputeDevice.
//
//   OpenCudaDevice("cuda:1")          the second GPU of the driver, libcuda.so.1
//   OpenCudaDevice("cuda-emulated")   that of libkiln_ptx_driver.so, on the CPU (ptx_emulator/)
//   OpenCudaDevice("cuda-emulated:1") the second one there, where the emulator is configured so
#ifndef KILN_EXEC_CUDA_CUDA_DEVICE_H_
#define KILN_EXEC_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "exec/cuda/gpu.h"
#include "exec/support/compute_device.h"

namespace kiln::cuda {

// As OpenComputeDevice.
absl::StatusOr<std::shared_ptr<ComputeDevice>> OpenCudaDevice(const std::string& name);

// The same of a GPU that is open already.
absl::StatusOr<std::shared_ptr<ComputeDevice>> MakeCudaDevice(std::shared_ptr<Gpu> gpu,
                                                              const std::string& name);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_CUDA_DEVICE_H_
