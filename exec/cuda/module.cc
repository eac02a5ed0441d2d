// SPDX-License-Identifier: Apache-2.0
// What libkiln_cuda.so exports (exec/support/compute_device.h).
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "exec/cuda/cuda_device.h"

extern "C" __attribute__((visibility("default"))) void kiln_open_device(
    const char* version, const std::string& name,
    absl::StatusOr<std::shared_ptr<kiln::ComputeDevice>>* made) {
  if (std::strcmp(version, KILN_VERSION) != 0) {
    *made = absl::UnavailableError(absl::StrCat("libkiln_cuda.so is of version ", KILN_VERSION,
                                                ", this library of ", version,
                                                "; install both of one version"));
    return;
  }
  *made = kiln::CatchExceptions("device", [&] { return kiln::cuda::OpenCudaDevice(name); });
}
