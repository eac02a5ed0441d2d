// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/open_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace kiln::cuda {

absl::Status Unusable(const LibraryName& library, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat(library.name, ": ", why, "; install ", library.install,
                   ", or compile without library calls (device_library kNever, --device-library "
                   "off)"));
}

absl::StatusOr<void*> OpenLibrary(const LibraryName& library, const std::string& path) {
  std::string why;
  const auto open = [&](const char* file) -> void* {
    void* const opened = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (opened != nullptr) return opened;
    const char* const error = dlerror();
    absl::StrAppend(&why, why.empty() ? "" : "; ", error != nullptr ? error : file);
    return nullptr;
  };
  if (!path.empty()) {
    if (void* const opened = open(path.c_str())) return opened;
    return Unusable(library, why);
  }
  for (const char* const file : library.files)
    if (void* const opened = open(file)) return opened;
  return Unusable(library, why);
}

bool FindFunction(void* library, const char* name, void** function) {
  *function = dlsym(library, name);
  return *function != nullptr;
}

}  // namespace kiln::cuda
