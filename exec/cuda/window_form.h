// SPDX-License-Identifier: Apache-2.0
// WindowForm: a convolution or pool as cuDNN takes it: dense operands, channels first, at least two
// spatial axes, and the same padding at both ends of an axis.
#ifndef KILN_EXEC_CUDA_WINDOW_FORM_H_
#define KILN_EXEC_CUDA_WINDOW_FORM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "exec/library/primitive.h"

namespace kiln::cuda {

struct WindowForm {
  DType type = DType::kF32;
  std::vector<int> x, w, y;                           // shapes; w: of convolutions
  std::vector<int> kernel, pads, strides, dilations;  // by spatial axis
  int groups = 1;
  bool count_pads = false;  // of an average

  // All that the library's heuristics see.
  std::string Text() const;
};

// What is added to a convolution before its activation, in order; an input of the request.
struct Addend {
  size_t input;
  bool vector;  // over the channels; else a tensor as the output
};
struct ConvolutionForm {
  WindowForm window;
  std::vector<Addend> addends;
  bool relu = false;
};

// kUnimplemented: types, layouts, pads or post-ops that are not the library's; which.
absl::StatusOr<ConvolutionForm> ConvolutionFormOf(const library::Request& request, bool transposed);
// Of conv_backward_weights: the convolution of x by the weight w that it is about, to the cotangent
// y.
absl::StatusOr<WindowForm> BackwardFormOf(const library::Request& request);
absl::StatusOr<WindowForm> PoolFormOf(const library::Request& request, bool average);
// Of average_pool_backward: the pool, of the gradient to the cotangent.
absl::StatusOr<WindowForm> AverageBackwardFormOf(const library::Request& request);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_WINDOW_FORM_H_
