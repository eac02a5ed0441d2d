// SPDX-License-Identifier: Apache-2.0
// Matrix times vector: a product with one row or one column, which is as fast as the matrix can be
// read. The matrix is read once, in the order it lies in memory or from its end, and never packed.
#ifndef KILN_EXEC_LIBRARY_GEMV_H_
#define KILN_EXEC_LIBRARY_GEMV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// matmul of f32 with m = 1 or n = 1, no batch, a dense axis of the matrix and a dense vector;
// others are kUnimplemented. The order of each sum depends on the extents and on how the
// matrix lies alone (Shares of gemv_rows.h).
absl::StatusOr<std::unique_ptr<Primitive>> MakeGemv(const Request& request,
                                                    const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_GEMV_H_
