// SPDX-License-Identifier: Apache-2.0
// cuDNN, found at run time. Nothing of Kiln links it.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Cudnn> dnn, Cudnn::Open(""));
//   KILN_RETURN_IF_ERROR(dnn->Check(dnn->cudnnCreate(&handle), "cudnnCreate"));
//
// Any library that exports the functions will do, as that of the tests does.
#ifndef KILN_EXEC_CUDA_CUDNN_H_
#define KILN_EXEC_CUDA_CUDNN_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/cuda/cudnn_api.h"
#include "exec/cuda/library_object.h"

namespace kiln::cuda {

inline constexpr size_t kLeastCudnn = 90000;  // correctness: 9.0, of which the statuses are

// Immutable; thread-safe as the functions are.
struct Cudnn {
#define KILN_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  KILN_CUDNN_FUNCTIONS(KILN_MEMBER)
#undef KILN_MEMBER

  // As CublasLt::Open.
  static absl::StatusOr<std::shared_ptr<const Cudnn>> Open(const std::string& path);

  std::string version() const;  // "9.19.0"
  // OK for kDnnSuccess. `what` is the subject of the message. kResourceExhausted: out of memory;
  // kUnimplemented: not supported.
  absl::Status Check(DnnStatus status, absl::string_view what) const;
};

// Whether a call is none that the library has, and has done nothing.
inline bool IsNotSupported(DnnStatus status) { return status / 1000 == kDnnNotSupported / 1000; }

template <typename Handle>
using DnnObject = LibraryObject<Handle, DnnStatus>;

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_CUDNN_H_
