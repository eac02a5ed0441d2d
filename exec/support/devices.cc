// SPDX-License-Identifier: Apache-2.0
// The table of device runtimes, one line each.
#include "exec/cpu/device.h"
#include "exec/cuda/device.h"
#include "exec/support/compute_device.h"
#include "exec/support/device.h"

namespace kiln {

std::span<const DeviceRuntime* const> AllDeviceRuntimes() {
  static constexpr const DeviceRuntime* kRuntimes[] = {
      &kCpuRuntime,
      &kCudaRuntime,
  };
  return kRuntimes;
}

}  // namespace kiln
