// SPDX-License-Identifier: Apache-2.0
// The table of device models, one line each.
#include "schedule/cpu/device.h"
#include "schedule/cuda/device.h"
#include "schedule/device.h"

namespace kiln {

std::span<const DeviceModel* const> AllDeviceModels() {
  static constexpr const DeviceModel* kModels[] = {
      &kCpuModel,
      &kCudaModel,
  };
  return kModels;
}

}  // namespace kiln
