// SPDX-License-Identifier: Apache-2.0
// A device of the emulated driver (ptx_emulator/), reached as any other: through the driver's
// table.
#ifndef KILN_TESTS_CUDA_EMULATED_GPU_H_
#define KILN_TESTS_CUDA_EMULATED_GPU_H_

#include <memory>
#include <string>

#include "exec/cuda/gpu.h"
#include "ptx_emulator/control.h"

namespace kiln {

// The path of the emulated driver's library.
std::string EmulatedDriver();

// Starts the emulated driver anew with `config`, or the default, and opens device 0.
std::shared_ptr<cuda::Gpu> EmulatedGpu(const kiln_ptx_config* config = nullptr);

// What the checks have found since the last call; "" if nothing.
std::string TakeFindings();

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_EMULATED_GPU_H_
