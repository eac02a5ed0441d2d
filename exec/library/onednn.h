// SPDX-License-Identifier: Apache-2.0
// The implementations of products and convolutions, the loops for what oneDNN does not take
// included. onednn_*.cc alone see oneDNN.
//
// oneDNN runs on OpenMP, which here is Kiln's own (exec/support/openmp_shim.h): each call lends it
// the session's pool, and its regions take turns with those of kernels.
#ifndef KILN_EXEC_LIBRARY_ONEDNN_H_
#define KILN_EXEC_LIBRARY_ONEDNN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

absl::StatusOr<std::unique_ptr<Primitive>> MakeOneDnnMatmul(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeMatmulLoop(const Request& request,
                                                          const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvKept(const Request& request,
                                                        const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvReordered(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvLoop(const Request& request,
                                                        const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTransposeKept(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTransposeReordered(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTransposeLoop(
    const Request& request, const std::shared_ptr<Session>& session);

// x, cotangent -> gradient of the weight.
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsKept(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsReordered(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsLoop(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_ONEDNN_H_
