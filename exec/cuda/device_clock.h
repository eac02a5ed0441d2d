// SPDX-License-Identifier: Apache-2.0
// DeviceClock: how long the device works on what is put into a stream, by two of its events.
//
//   KILN_ASSIGN_OR_RETURN(auto clock, DeviceClock::Make(gpu));
//   KILN_RETURN_IF_ERROR(clock->Start(stream));
//   ... launches and copies ...
//   KILN_ASSIGN_OR_RETURN(const double ms, clock->Stop(stream));
//
// One stream at a time; not thread-safe.
#ifndef KILN_EXEC_CUDA_DEVICE_CLOCK_H_
#define KILN_EXEC_CUDA_DEVICE_CLOCK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/cuda/gpu.h"

namespace kiln::cuda {

class DeviceClock {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceClock>> Make(std::shared_ptr<Gpu> gpu);

  absl::Status Start(Stream stream);
  // Waits until the device is done.
  absl::StatusOr<double> Stop(Stream stream);

 private:
  explicit DeviceClock(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  const std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<DeviceEvent> from_, to_;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_DEVICE_CLOCK_H_
