// SPDX-License-Identifier: Apache-2.0
// max_pool_backward (x, cotangent -> gradient of x) and average_pool_backward (cotangent ->
// gradient) as loops. Each element of the gradient is a sum in the order of the windows, whoever
// computes it: the bits do not depend on threads.
#ifndef KILN_EXEC_LIBRARY_POOL_BACKWARD_H_
#define KILN_EXEC_LIBRARY_POOL_BACKWARD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// Channels side by side: f32, channels innermost in all operands.
absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolBackwardRows(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolBackwardRows(
    const Request& request, const std::shared_ptr<Session>& session);
// Plane by plane: any float type and strides; 16-bit ones are summed in f32.
absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolBackwardPlanes(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolBackwardPlanes(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_POOL_BACKWARD_H_
