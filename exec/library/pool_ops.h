// SPDX-License-Identifier: Apache-2.0
// max_pool and average_pool as plain loops over planes: NaN and padding as ONNX has them, any
// strides of the operands.
#ifndef KILN_EXEC_LIBRARY_POOL_OPS_H_
#define KILN_EXEC_LIBRARY_POOL_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// All channels of a point at once: f32, channels innermost.
absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolRows(const Request& request,
                                                           const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolRows(
    const Request& request, const std::shared_ptr<Session>& session);
// Plane by plane: any type and strides.
absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolPlanes(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolPlanes(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_POOL_OPS_H_
