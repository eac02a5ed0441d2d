// SPDX-License-Identifier: Apache-2.0
// Windows: convolutions and pools of cuDNN on one GPU.
//
//   KILN_ASSIGN_OR_RETURN(auto windows, Windows::Make(gpu, dnn));
//   KILN_ASSIGN_OR_RETURN(auto primitive, windows->Convolution(request, /*transposed=*/false));
//   KILN_RETURN_IF_ERROR(primitive->Run(arguments));             // context->stream: a queue
//
// f32 is multiplied as f32, never as TF32, and only algorithms with the same bits in each run are
// taken. A NaN stays a NaN through maxima and relu. The library's heuristics are asked once for
// each form of call. A transposed convolution is the gradient of a convolution by its input.
#ifndef KILN_EXEC_CUDA_WINDOWS_H_
#define KILN_EXEC_CUDA_WINDOWS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "exec/cuda/cudnn.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/launch_queue.h"
#include "exec/library/primitive.h"

namespace kiln::cuda {

// Thread-safe.
class Windows : public std::enable_shared_from_this<Windows> {
 public:
  struct Algorithm {
    DnnAlgo algo;
    size_t workspace;  // bytes
  };

  static absl::StatusOr<std::shared_ptr<Windows>> Make(std::shared_ptr<Gpu> gpu,
                                                       std::shared_ptr<const Cudnn> dnn);
  ~Windows();

  // kUnimplemented: the library has no way to compute it.
  absl::StatusOr<std::unique_ptr<library::Primitive>> Convolution(const library::Request& request,
                                                                  bool transposed);
  // The gradient of a convolution by its weight.
  absl::StatusOr<std::unique_ptr<library::Primitive>> BackwardFilter(
      const library::Request& request);
  absl::StatusOr<std::unique_ptr<library::Primitive>> Pool(const library::Request& request,
                                                           bool average);
  // The gradient of an average pool. That of a maximum is not the library's: which of several equal
  // elements has it is not documented.
  absl::StatusOr<std::unique_ptr<library::Primitive>> AveragePoolBackward(
      const library::Request& request);

  const Cudnn& dnn() const { return *dnn_; }
  // call(handle) in the stream; the handle has one caller at a time.
  absl::StatusOr<DnnStatus> Call(Stream stream, absl::FunctionRef<DnnStatus(DnnHandle)> call);
  // What `ask` gives for a form with this text, asked once. Nothing: the library knows no way.
  absl::StatusOr<std::optional<Algorithm>> Choose(
      const std::string& text, absl::FunctionRef<DnnStatus(DnnHandle, int, int*, DnnPerf*)> ask);

 private:
  Windows(std::shared_ptr<Gpu> gpu, std::shared_ptr<const Cudnn> dnn)
      : gpu_(std::move(gpu)), dnn_(std::move(dnn)) {}

  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<const Cudnn> dnn_;
  Mutex mutex_;
  DnnHandle handle_ = nullptr;  // under mutex_
  std::map<std::string, std::optional<Algorithm>> chosen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_WINDOWS_H_
