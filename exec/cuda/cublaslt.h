// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, found at run time, and its objects. Nothing of Kiln links it.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<const CublasLt> lt, CublasLt::Open(""));
//   KILN_RETURN_IF_ERROR(lt->Check(lt->cublasLtCreate(&handle), "cublasLtCreate"));
//
// Any library that exports the functions will do, as that of the tests does.
#ifndef KILN_EXEC_CUDA_CUBLASLT_H_
#define KILN_EXEC_CUDA_CUBLASLT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/cuda/cublaslt_api.h"
#include "exec/cuda/library_object.h"

namespace kiln::cuda {

inline constexpr size_t kLeastCublasLt = 120000;  // correctness: 12.0, of which the ABI is

// Immutable; thread-safe as the functions are.
struct CublasLt {
#define KILN_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  KILN_CUBLASLT_FUNCTIONS(KILN_MEMBER)
#undef KILN_MEMBER

  // Opens the library, which stays open as long as the process; of an empty path the one that the
  // system has. kFailedPrecondition: there is none, it lacks a function, or is older than
  // kLeastCublasLt; what to do.
  static absl::StatusOr<std::shared_ptr<const CublasLt>> Open(const std::string& path);

  std::string version() const;  // "13.1.0"
  // OK for kLtSuccess. `what` is the subject of the message. kResourceExhausted: out of memory;
  // kUnimplemented: not supported.
  absl::Status Check(LtStatus status, absl::string_view what) const;
};

template <typename Handle>
using LtObject = LibraryObject<Handle, LtStatus>;

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_CUBLASLT_H_
