// SPDX-License-Identifier: Apache-2.0
// A Kernel compiled for CUDA, run on the emulated device and compared with EvalKernel, bit by bit.
#ifndef KILN_TESTS_CUDA_DEVICE_KERNEL_CHECK_H_
#define KILN_TESTS_CUDA_DEVICE_KERNEL_CHECK_H_

#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/device_kernel.h"
#include "exec/cuda/launch_queue.h"
#include "kernel/kernel.h"
#include "ptx_emulator/control.h"
#include "schedule/schedule.h"
#include "tests/kernel/random.h"

namespace kiln {

class DeviceKernelCheck {
 public:
  // Compiles; what is wrong is in `error`.
  DeviceKernelCheck(std::shared_ptr<cuda::Gpu> gpu, const Kernel& kernel, const Schedule& schedule);

  const std::string& error() const { return error_; }
  const std::string& ptx() const { return ptx_; }
  const std::string& recipe() const { return recipe_; }

  // "" if the outputs of `run` are those of EvalKernel and no check of the emulator has found
  // anything; else what is wrong. Operands lie in memory of exactly their bytes; where bit k of
  // `shifted` is set, operand k (inputs, then outputs) one element behind where it would be
  // aligned. `counters`: null, or of the launches.
  std::string Run(RandomRun run, uint32_t shifted = 0, kiln_ptx_counters* counters = nullptr);

 private:
  const std::shared_ptr<cuda::Gpu> gpu_;
  const Kernel kernel_;
  std::unique_ptr<cuda::DeviceKernel> loaded_;
  std::unique_ptr<cuda::LaunchQueue> queue_;
  std::string error_, ptx_, recipe_;
};

// The candidates of CUDA's templates for extents that are at most `at_most` (one for each dim;
// none: unbounded).
std::vector<Schedule> DeviceCandidates(const Kernel& kernel, std::vector<int64_t> at_most = {});

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_DEVICE_KERNEL_CHECK_H_
