// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened at run time, and the tables of functions found in them.
#ifndef KILN_EXEC_CUDA_OPEN_LIBRARY_H_
#define KILN_EXEC_CUDA_OPEN_LIBRARY_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace kiln::cuda {

// A library's versions by file name, in the order in which they are tried.
struct LibraryName {
  const char* name;                    // "cuBLASLt"
  std::span<const char* const> files;  // "libcublasLt.so.13", ...
  const char* install;                 // what has it: "libcublas of CUDA 12 or 13"
};

// The handle of dlopen, which is never closed; of `path` if that is not empty. kFailedPrecondition:
// none can be opened; what to install.
absl::StatusOr<void*> OpenLibrary(const LibraryName& library, const std::string& path);

// kFailedPrecondition with the same advice.
absl::Status Unusable(const LibraryName& library, const std::string& why);

// False, with the function left null, where there is none.
bool FindFunction(void* library, const char* name, void** function);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_OPEN_LIBRARY_H_
