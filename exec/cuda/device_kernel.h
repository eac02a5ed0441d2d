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
#include "exec/cuda/device_clock.h"
#include "exec/cuda/gpu.h"
#include "exec/support/compute_device.h"
#include "kernel/kernel.h"
#include "kernel/launch_recipe.h"

namespace kiln::cuda {

// A stream with the memory of what is launched in it, which grows and is used again: work in a
// stream is in order. One caller at a time.
class LaunchQueue final : public DeviceQueue {
 public:
  static absl::StatusOr<std::unique_ptr<LaunchQueue>> Make(std::shared_ptr<Gpu> gpu);

  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }
  Stream stream() const { return stream_->handle(); }
  // At least `bytes`, for the launches up to the next call.
  absl::StatusOr<DevicePointer> Scratch(size_t bytes);
  void SetError(absl::Status error) {
    if (error_.ok()) error_ = std::move(error);
  }

  absl::StatusOr<void*> Arena(int64_t bytes) override;
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override;
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override;
  absl::Status CopyOver(void* to, const void* from, size_t bytes) override;
  absl::Status Wait() override;
  absl::Status TakeError() override;
  absl::Status StartClock() override;
  absl::StatusOr<double> StopClock() override;

 private:
  LaunchQueue(std::shared_ptr<Gpu> gpu, std::shared_ptr<DeviceStream> stream)
      : gpu_(std::move(gpu)), stream_(std::move(stream)) {}
  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<DeviceStream> stream_;
  std::shared_ptr<DeviceMemory> arena_;
  std::unique_ptr<DeviceClock> clock_;
  std::shared_ptr<DeviceMemory> flush_;  // what StartClock fills the cache with
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

  absl::Status Launch(void** argv, LaunchQueue& queue) const;

 private:
  DeviceKernel() = default;
  absl::Status CheckArguments() const;

  std::shared_ptr<DeviceModule> module_;
  LaunchRecipe recipe_;
  Counts counts_;
  std::vector<Function> functions_;  // one for each launch
};

// A KernelFn: the DeviceKernel is in LaunchContext::kernel, a LaunchQueue, as DeviceQueue*, in its
// stream. -1 for an error, which the queue has.
int RunDeviceKernel(void** argv);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_DEVICE_KERNEL_H_
