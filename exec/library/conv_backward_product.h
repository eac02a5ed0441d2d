// SPDX-License-Identifier: Apache-2.0
// conv_backward_weights of points as one product over rows of pixels, which writes the weight as it
// lies, where oneDNN's convolution reorders it.
//
//   x [N, C, D...], cotangent g [N, M, D...], channels innermost: the weight [M, C] = g' x
#ifndef KILN_EXEC_LIBRARY_CONV_BACKWARD_PRODUCT_H_
#define KILN_EXEC_LIBRARY_CONV_BACKWARD_PRODUCT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// f32. kUnimplemented also where the cotangent, which the product transposes, has more elements
// than the weight.
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsProduct(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_CONV_BACKWARD_PRODUCT_H_
