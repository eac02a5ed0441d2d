// SPDX-License-Identifier: Apache-2.0
// Convolutions whose window is one point: with the channels innermost a product of rows, of which
// there are many, with a matrix that the caches hold. A few rows at a time go through all panels of
// the matrix and then through what follows the product, before they leave the caches.
#ifndef KILN_EXEC_LIBRARY_CONV_1X1_H_
#define KILN_EXEC_LIBRARY_CONV_1X1_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// conv of f32 with windows of one point next to each other, channels innermost, one group, constant
// weights. Others are kUnimplemented.
absl::StatusOr<std::unique_ptr<Primitive>> MakeConv1X1(const Request& request,
                                                       const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_CONV_1X1_H_
