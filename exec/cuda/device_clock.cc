// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_clock.h"

#include <utility>

#include "base/status_macros.h"

namespace kiln::cuda {

absl::StatusOr<std::unique_ptr<DeviceClock>> DeviceClock::Make(std::shared_ptr<Gpu> gpu) {
  std::unique_ptr<DeviceClock> clock(new DeviceClock(std::move(gpu)));
  for (std::shared_ptr<DeviceEvent>* const event : {&clock->from_, &clock->to_}) {
    KILN_ASSIGN_OR_RETURN(*event, DeviceEvent::Make(clock->gpu_, /*timed=*/true));
  }
  return clock;
}

absl::Status DeviceClock::Start(Stream stream) {
  return gpu_->Call("an event",
                    [&] { return gpu_->driver().cuEventRecord(from_->handle(), stream); });
}

absl::StatusOr<double> DeviceClock::Stop(Stream stream) {
  const Driver& driver = gpu_->driver();
  float ms = 0;
  KILN_RETURN_IF_ERROR(
      gpu_->Call("an event", [&] { return driver.cuEventRecord(to_->handle(), stream); }));
  KILN_RETURN_IF_ERROR(
      gpu_->Call("the work of a stream", [&] { return driver.cuEventSynchronize(to_->handle()); }));
  KILN_RETURN_IF_ERROR(gpu_->Call(
      "an event", [&] { return driver.cuEventElapsedTime(&ms, from_->handle(), to_->handle()); }));
  return static_cast<double>(ms);
}

}  // namespace kiln::cuda
