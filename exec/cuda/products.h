// SPDX-License-Identifier: Apache-2.0
// Products: matrix products of cuBLASLt on one GPU.
//
//   KILN_ASSIGN_OR_RETURN(auto products, Products::Make(gpu, lt));
//   KILN_ASSIGN_OR_RETURN(auto primitive, products->Product(request));    // of operator "matmul"
//   KILN_RETURN_IF_ERROR(primitive->Run(arguments));                    // context->stream: a queue
//
// f32 is multiplied as f32, never as TF32; f16 and bf16 are summed in f32, f64 in f64. Splits of a
// sum are combined in f32, in order, so a call has the same bits in each run. The library's
// heuristics are asked once for each form of call. Row-major C = A B is computed as the
// column-major C' = B' A', so the vector over the columns of C is the library's bias.
#ifndef KILN_EXEC_CUDA_PRODUCTS_H_
#define KILN_EXEC_CUDA_PRODUCTS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "exec/cuda/cublaslt.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/product_form.h"
#include "exec/library/primitive.h"

namespace kiln::cuda {

// Thread-safe.
class Products : public std::enable_shared_from_this<Products> {
 public:
  // How a call is computed, where all operands are aligned alike.
  struct Algorithm {
    LtAlgo algo;
    size_t workspace = 0;  // bytes
  };
  struct Algorithms {
    std::optional<Algorithm> aligned;  // to kAlignment bytes
    std::optional<Algorithm> any;      // to their elements
  };
  static constexpr size_t kAlignment = 16;  // speed: of one load

  static absl::StatusOr<std::shared_ptr<Products>> Make(std::shared_ptr<Gpu> gpu,
                                                        std::shared_ptr<const CublasLt> lt);
  ~Products();

  // kUnimplemented: the library has no way to compute it.
  absl::StatusOr<std::unique_ptr<library::Primitive>> Product(const library::Request& request);

  Gpu& gpu() const { return *gpu_; }
  const CublasLt& lt() const { return *lt_; }
  LtHandle handle() const { return handle_; }
  // How often the heuristics have been asked.
  int queries() const;

 private:
  Products(std::shared_ptr<Gpu> gpu, std::shared_ptr<const CublasLt> lt)
      : gpu_(std::move(gpu)), lt_(std::move(lt)) {}
  absl::StatusOr<Algorithms> Choose(const ProductForm& form);
  absl::StatusOr<std::optional<Algorithm>> Ask(const ProductForm& form, size_t alignment);

  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<const CublasLt> lt_;
  LtHandle handle_ = nullptr;
  mutable Mutex mutex_;
  std::map<std::string, Algorithms> chosen_ ABSL_GUARDED_BY(mutex_);  // by ProductForm::Text
  int queries_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_PRODUCTS_H_
