// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_clock.h"

#include <utility>

#include "base/status_macros.h"

namespace kiln::cuda {

absl::StatusOr<std::unique_ptr<DeviceClock>> DeviceClock::Make(std::shared_ptr<Gpu> gpu) {
  std::unique_ptr<DeviceClock> clock(new DeviceClock(std::move(gpu)));
  for (Event* const event : {&clock->from_, &clock->to_}) {
    KILN_RETURN_IF_ERROR(clock->gpu_->Call(
        "an event", [&] { return clock->gpu_->driver().cuEventCreate(event, 0); }));
  }
  return clock;
}

DeviceClock::~DeviceClock() {
  for (const Event event : {from_, to_}) {
    if (event == nullptr) continue;
    gpu_->Call("cuEventDestroy", [&] { return gpu_->driver().cuEventDestroy_v2(event); })
        .IgnoreError();
  }
}

absl::Status DeviceClock::Start(Stream stream) {
  return gpu_->Call("an event", [&] { return gpu_->driver().cuEventRecord(from_, stream); });
}

absl::StatusOr<double> DeviceClock::Stop(Stream stream) {
  const Driver& driver = gpu_->driver();
  float ms = 0;
  KILN_RETURN_IF_ERROR(gpu_->Call("an event", [&] { return driver.cuEventRecord(to_, stream); }));
  KILN_RETURN_IF_ERROR(
      gpu_->Call("the work of a stream", [&] { return driver.cuEventSynchronize(to_); }));
  KILN_RETURN_IF_ERROR(
      gpu_->Call("an event", [&] { return driver.cuEventElapsedTime(&ms, from_, to_); }));
  return static_cast<double>(ms);
}

}  // namespace kiln::cuda
