// SPDX-License-Identifier: Apache-2.0
// LaunchQueue: a stream with the memory of what is launched in it, as a DeviceQueue.
//
//   KILN_ASSIGN_OR_RETURN(std::unique_ptr<LaunchQueue> queue, LaunchQueue::Make(gpu));
//   KILN_RETURN_IF_ERROR(queue->Launch(kernel, argv));     // a DeviceKernel
//   KILN_RETURN_IF_ERROR(queue->Wait());
//
// Memory grows and is used again: work in a stream is in order. A run may go into a stream of the
// application; the run after it waits, on the device, until that has come so far.
#ifndef KILN_EXEC_CUDA_LAUNCH_QUEUE_H_
#define KILN_EXEC_CUDA_LAUNCH_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/cuda/device_kernel.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/staging.h"
#include "exec/support/compute_device.h"

namespace kiln::cuda {

class LaunchQueue final : public DeviceQueue {
 public:
  static absl::StatusOr<std::unique_ptr<LaunchQueue>> Make(std::shared_ptr<Gpu> gpu);
  ~LaunchQueue() override;

  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }
  // Where work goes now.
  Stream stream() const { return active_; }
  // At least `bytes`, for the launches up to the next call.
  absl::StatusOr<DevicePointer> Scratch(size_t bytes);
  // `argv` as kernel/abi.h says, operands on the device.
  absl::Status Launch(const DeviceKernel& kernel, void** argv);
  // body() with the device's context current.
  absl::Status Within(absl::FunctionRef<absl::Status()> body);

  absl::StatusOr<void*> Arena(int64_t bytes) override;
  int64_t bytes() const override;
  absl::Status Begin(void* stream, bool alone) override;
  absl::Status End() override;
  void Abandon() override;
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override;
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override;
  absl::Status CopyOver(void* to, const void* from, size_t bytes) override;
  absl::Status WaitForCopies() override;
  absl::Status Wait() override;
  absl::Status TakeError() override;
  void SetError(absl::Status error) override {
    if (error_.ok()) error_ = std::move(error);
  }
  absl::StatusOr<std::unique_ptr<LaunchSequence>> Prepare(
      std::span<const DeviceCall> calls) override;
  absl::Status FlushCache() override;
  absl::Status Mark(size_t mark) override;
  absl::StatusOr<double> MillisecondsBetween(size_t from, size_t to) override;

 private:
  LaunchQueue(std::shared_ptr<Gpu> gpu, std::shared_ptr<DeviceStream> stream);
  absl::Status Enqueue(absl::string_view what, absl::FunctionRef<Result()> call);
  absl::Status GoInto(Stream stream);
  absl::Status WaitForStream();
  void Leave();

  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<DeviceStream> stream_;
  Stream active_;                      // stream_, or the application's during a run
  bool current_ = false;               // the context is, for this run's thread
  std::shared_ptr<DeviceEvent> done_;  // the end of the last run in a stream of the application
  bool behind_ = false;                // nobody has waited for it
  Staging staging_;
  std::shared_ptr<DeviceMemory> arena_;
  std::vector<std::shared_ptr<DeviceMemory>>
      scratch_;                          // the last is in use; launches may use others
  std::shared_ptr<DeviceMemory> flush_;  // what FlushCache writes
  std::vector<std::shared_ptr<DeviceEvent>> marks_;
  absl::Status error_;
};

// A KernelFn: the DeviceKernel is in LaunchContext::kernel, a LaunchQueue, as DeviceQueue*, in its
// stream. The launch has not ended when it returns. -1 for an error, which the queue has.
int RunDeviceKernel(void** argv);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_LAUNCH_QUEUE_H_
