// SPDX-License-Identifier: Apache-2.0
// Operators in which elements depend on others in order, as plain loops: top_k and running sums.
// Of a NaN and a number top_k takes the NaN for larger.
#ifndef KILN_EXEC_LIBRARY_ORDER_OPS_H_
#define KILN_EXEC_LIBRARY_ORDER_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// x -> values, indices (i64). k, axis, largest.
absl::StatusOr<std::unique_ptr<Primitive>> MakeTopK(const Request& request,
                                                    const std::shared_ptr<Session>& session);
// x -> y. axis, product, exclusive, reverse.
absl::StatusOr<std::unique_ptr<Primitive>> MakeCumulative(const Request& request,
                                                          const std::shared_ptr<Session>& session);
}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_ORDER_OPS_H_
