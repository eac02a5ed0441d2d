// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's libraries compute, as DeviceModel asks: cuBLASLt products of floats, cuDNN
// convolutions and pools of f32, f64 and f16, and convolutions of bf16 without a bias.
//
// A call of cuBLASLt adds a matrix (its operand C) and a vector over the columns (its epilogue).
// Its relu may drop a NaN, and its gelu is an approximation: a call has them with fast math only. A
// convolution of cuDNN adds vectors and tensors, and has a relu that keeps a NaN. Its windows have
// the same pads at both ends, and its pools no dilation; what has others becomes kernels. So does
// the gradient of a maximum, of which cuDNN does not say which of equal elements has it, and what
// is of bytes: cuBLASLt has neither zero points nor factors of two types.
#ifndef KILN_SCHEDULE_CUDA_LIBRARY_H_
#define KILN_SCHEDULE_CUDA_LIBRARY_H_

#include <span>

#include "absl/strings/string_view.h"
#include "base/library_set.h"
#include "schedule/device.h"

namespace kiln {

LibrarySet CudaLibraryOf(const OperatorForm& op);
bool CudaLibraryTakes(absl::string_view op, std::span<const PostOpForm> before, PostOpForm next,
                      bool fast);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_LIBRARY_H_
