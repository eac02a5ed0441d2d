// SPDX-License-Identifier: Apache-2.0
// The table of driver functions, found in a library at run time: nothing of Kiln links libcuda.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Driver> driver, Driver::Open("libcuda.so.1"));
//   KILN_RETURN_IF_ERROR(driver->Check(driver->cuMemAlloc_v2(&memory, 64), "cuMemAlloc"));
//
// Any library that exports the functions will do, as the emulator's (ptx_emulator/) does.
#ifndef KILN_EXEC_CUDA_DRIVER_H_
#define KILN_EXEC_CUDA_DRIVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/cuda/driver_api.h"

namespace kiln::cuda {

inline constexpr const char* kDriverLibrary = "libcuda.so.1";
inline constexpr int kLeastDriver = 11040;  // correctness: CUDA 11.4, of which the ABI is

// Immutable; thread-safe as the functions are.
struct Driver {
#define KILN_MEMBER(name, parameters) Result(*name) parameters = nullptr;
  KILN_CUDA_FUNCTIONS(KILN_MEMBER)
#undef KILN_MEMBER

  // Opens the library, which stays open as long as the process, and calls cuInit. kUnavailable:
  // there is no such library, or no device; it lacks a function, or is older than kLeastDriver: the
  // message has both versions.
  static absl::StatusOr<std::shared_ptr<const Driver>> Open(const std::string& library);

  // OK for kSuccess. `what` is the subject of the message. kResourceExhausted: out of memory;
  // kUnavailable: no device, or it is lost (IsLost).
  absl::Status Check(Result result, absl::string_view what) const;
  // "CUDA 13.0": the highest version that it serves; "" if it does not say.
  std::string version() const;
};

// Whether a context that has answered so answers everything so from then on: a kernel has read
// where it must not, or the device has gone. Only a new process gets another context.
bool IsLost(Result result);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_DRIVER_H_
