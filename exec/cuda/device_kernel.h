// SPDX-License-Identifier: Apache-2.0
// Device code of a Kernel, ready to be launched by its recipe (kernel/launch_recipe.h).
//
//   const auto counts = DeviceKernel::Counts::Of(kernel);
//   KILN_ASSIGN_OR_RETURN(auto loaded, DeviceKernel::Load(gpu, ptx, recipe, counts));
//   launcher.Launch(&RunDeviceKernel, loaded.get(), argv);    // argv as for compiled code
//
// A launch is put into the queue that is the launcher's stream, and has not ended when the function
// returns. Operands lie on the device: BufferArg::host has their addresses there.
#ifndef KILN_EXEC_CUDA_DEVICE_KERNEL_H_
#define KILN_EXEC_CUDA_DEVICE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/cuda/gpu.h"
#include "kernel/kernel.h"
#include "kernel/launch_recipe.h"

namespace kiln::cuda {

// A stream with the scratch memory of what is launched in it, which grows and is used again: work
// in a stream is in order. One caller at a time.
class DeviceQueue {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceQueue>> Make(std::shared_ptr<Gpu> gpu);

  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }
  Stream stream() const { return stream_->handle(); }
  // At least `bytes`, for the launches up to the next call.
  absl::StatusOr<DevicePointer> Scratch(size_t bytes);
  absl::Status Wait();
  // The first error of a launch since the last call.
  absl::Status TakeError();
  void SetError(absl::Status error) {
    if (error_.ok()) error_ = std::move(error);
  }

 private:
  DeviceQueue(std::shared_ptr<Gpu> gpu, std::shared_ptr<DeviceStream> stream)
      : gpu_(std::move(gpu)), stream_(std::move(stream)) {}
  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<DeviceStream> stream_;
  std::vector<std::shared_ptr<DeviceMemory>>
      scratch_;  // the last is in use; launches may use others
  absl::Status error_;
};

// Immutable; any number of queues of its device may have launches of it at once.
class DeviceKernel {
 public:
  // How many arguments there are of each kind, and where params are no addresses.
  struct Counts {
    size_t inputs = 0, dims = 0, outputs = 0;
    std::vector<DType> params;
    static Counts Of(const Kernel& kernel);
  };

  // kDataLoss: the code is none, or has not the functions of the recipe, or that names arguments
  // that there are not.
  static absl::StatusOr<std::unique_ptr<DeviceKernel>> Load(std::shared_ptr<Gpu> gpu,
                                                            const std::string& image,
                                                            absl::string_view recipe,
                                                            Counts counts);

  absl::Status Launch(void** argv, DeviceQueue& queue) const;

 private:
  DeviceKernel() = default;
  absl::Status CheckArguments() const;

  std::shared_ptr<DeviceModule> module_;
  LaunchRecipe recipe_;
  Counts counts_;
  std::vector<Function> functions_;  // one for each launch
};

// A KernelFn: the DeviceKernel is in LaunchContext::kernel, the queue in its stream. -1 for an
// error, which the queue has.
int RunDeviceKernel(void** argv);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_DEVICE_KERNEL_H_
