// SPDX-License-Identifier: Apache-2.0
// Libraries: NVIDIA's libraries for one GPU, each opened when it is first asked for.
//
//   Libraries libraries(gpu, {.cublaslt = "/opt/lib/libcublasLt.so.13"});
//   KILN_ASSIGN_OR_RETURN(auto primitive, libraries.MakeCall("matmul", request));
//
// A library that is missing stays so. Thread-safe.
#ifndef KILN_EXEC_CUDA_LIBRARIES_H_
#define KILN_EXEC_CUDA_LIBRARIES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/products.h"
#include "exec/cuda/windows.h"
#include "exec/support/compute_device.h"

namespace kiln::cuda {

// Where they are: a path, or "" for the system's; nothing: they are not looked for.
struct LibraryPaths {
  std::optional<std::string> cublaslt, cudnn;

  // Of a GPU: $KILN_CUBLASLT and $KILN_CUDNN, else the system's. Of the emulated one, whose memory
  // no real library reaches: those of the variables alone.
  static LibraryPaths FromEnvironment(bool emulated);
};

class Libraries {
 public:
  Libraries(std::shared_ptr<Gpu> gpu, LibraryPaths paths)
      : gpu_(std::move(gpu)), paths_(std::move(paths)) {}

  // As ComputeDevice has them.
  std::vector<DeviceLibraryInfo> Infos();
  absl::StatusOr<std::unique_ptr<library::Primitive>> MakeCall(absl::string_view op,
                                                               const library::Request& request);

 private:
  absl::StatusOr<std::shared_ptr<const CublasLt>> OpenedLt();
  absl::StatusOr<std::shared_ptr<const Cudnn>> OpenedDnn();
  absl::StatusOr<std::shared_ptr<Products>> OpenedProducts();
  absl::StatusOr<std::shared_ptr<Windows>> OpenedWindows();

  const std::shared_ptr<Gpu> gpu_;
  const LibraryPaths paths_;
  Mutex mutex_;
  std::optional<absl::StatusOr<std::shared_ptr<const CublasLt>>> lt_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<std::shared_ptr<const Cudnn>>> dnn_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Products> products_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Windows> windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_LIBRARIES_H_
