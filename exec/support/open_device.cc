// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/child_process.h"
#include "base/status_macros.h"
#include "exec/support/compute_device.h"

namespace kiln {

absl::StatusOr<std::shared_ptr<ComputeDevice>> OpenComputeDevice(const std::string& name) {
  KILN_ASSIGN_OR_RETURN(const std::string path, FindModule("libkiln_cuda.so", "KILN_CUDA_MODULE"));
  // Stays open as long as the process: so does the driver that it opens.
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const open = module != nullptr ? dlsym(module, "kiln_open_device") : nullptr;
  if (open == nullptr) {
    const char* const why = dlerror();
    return absl::UnavailableError(
        absl::StrCat("device \"", name, "\": ", path, ": ", why != nullptr ? why : "is no module"));
  }
  absl::StatusOr<std::shared_ptr<ComputeDevice>> made = absl::InternalError("no device");
  reinterpret_cast<OpenDeviceFn>(open)(KILN_VERSION, name, &made);
  return made;
}

}  // namespace kiln
