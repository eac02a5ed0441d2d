// SPDX-License-Identifier: Apache-2.0
// The operators that oneDNN computes. onednn_*.cc alone see oneDNN.
//
// oneDNN runs on OpenMP, which here is Kiln's own (kiln/exec/support/komp.h): each call lends it
// the session's pool, and its regions take turns with those of kernels.
#ifndef KILN_EXEC_LIBRARY_ONEDNN_H_
#define KILN_EXEC_LIBRARY_ONEDNN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kiln/exec/library/library.h"

namespace kiln::library {

absl::StatusOr<std::unique_ptr<Primitive>> MakeMatmul(const Request& request,
                                                      const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConv(const Request& request,
                                                    const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTranspose(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_ONEDNN_H_
