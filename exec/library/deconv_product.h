// SPDX-License-Identifier: Apache-2.0
// A transposed convolution of a small image as one matrix product per tap, and a sum of taps.
#ifndef KILN_EXEC_LIBRARY_DECONV_PRODUCT_H_
#define KILN_EXEC_LIBRARY_DECONV_PRODUCT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// conv_transpose of f32, channels innermost, one group, at most 64 points of input: the weights
// outweigh everything else and are read once, as a matrix. Others are kUnimplemented.
//
//   partial[tap][point] = x[point] * w[:, :, tap]
//   y[at] = sum over taps, in order, of partial[tap][the point that tap carries to `at`]
absl::StatusOr<std::unique_ptr<Primitive>> MakeDeconvProduct(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DECONV_PRODUCT_H_
