// SPDX-License-Identifier: Apache-2.0
// The table of device models, one line each.
#include "absl/strings/str_cat.h"
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

Decision GroupCaps::Allows(size_t with_buffers, size_t with_numbers) const {
  if (with_buffers > buffers) {
    return Decision::No(absl::StrCat("one kernel would have ", with_buffers,
                                     " inputs and outputs, the limit is ", buffers));
  }
  if (with_numbers > numbers) {
    return Decision::No(absl::StrCat("one kernel would have ", with_numbers,
                                     " inputs of one element, the limit is ", numbers));
  }
  return Decision::Yes();
}

}  // namespace kiln
