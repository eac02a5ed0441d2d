// SPDX-License-Identifier: Apache-2.0
// Products of few rows: so few that the matrix takes as long to arrive from memory as the sums take
// to compute. Here both happen at once (packed_gemm.h). Small images in convolutions are such
// rows.
#ifndef KILN_EXEC_LIBRARY_SKINNY_GEMM_H_
#define KILN_EXEC_LIBRARY_SKINNY_GEMM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// matmul and conv of f32 with 2 to 64 rows and a constant matrix that the second-level cache does
// not hold. kUnimplemented, with the reason, where another way is as fast.
absl::StatusOr<std::unique_ptr<Primitive>> MakeSkinnyGemmMatmul(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeSkinnyGemmConv(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_SKINNY_GEMM_H_
