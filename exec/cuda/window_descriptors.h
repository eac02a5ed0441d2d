// SPDX-License-Identifier: Apache-2.0
// cuDNN's descriptors of a WindowForm. They are made without a GPU.
#ifndef KILN_EXEC_CUDA_WINDOW_DESCRIPTORS_H_
#define KILN_EXEC_CUDA_WINDOW_DESCRIPTORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exec/cuda/cudnn.h"
#include "exec/cuda/window_form.h"

namespace kiln::cuda {

// Dense, with these extents.
absl::StatusOr<DnnObject<DnnTensor>> TensorOf(const Cudnn& dnn, DType type,
                                              const std::vector<int>& shape);
absl::StatusOr<DnnObject<DnnFilter>> FilterOf(const Cudnn& dnn, const WindowForm& form);
absl::StatusOr<DnnObject<DnnConvolution>> ConvolutionOf(const Cudnn& dnn, const WindowForm& form);
absl::StatusOr<DnnObject<DnnPooling>> PoolingOf(const Cudnn& dnn, const WindowForm& form,
                                                bool average);
// relu, in which a NaN stays one, or the identity.
absl::StatusOr<DnnObject<DnnActivation>> ActivationOf(const Cudnn& dnn, bool relu);

// Factors 1 and 0, in the type in which a call wants them.
struct Factors {
  explicit Factors(DType type) : f64(type == DType::kF64) {}
  const void* one() const { return f64 ? static_cast<const void*>(&one64) : &one32; }
  const void* zero() const { return f64 ? static_cast<const void*>(&zero64) : &zero32; }
  bool f64;
  float one32 = 1, zero32 = 0;
  double one64 = 1, zero64 = 0;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_WINDOW_DESCRIPTORS_H_
