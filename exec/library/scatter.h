// SPDX-License-Identifier: Apache-2.0
// scatter_elements and scatter_nd: updates of one element follow each other in their
// order, whoever writes them, so that no bit depends on threads.
#ifndef KILN_EXEC_LIBRARY_SCATTER_H_
#define KILN_EXEC_LIBRARY_SCATTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// data, indices, updates -> y. reduction; axis. Running fails for an index outside its axis.
absl::StatusOr<std::unique_ptr<Primitive>> MakeScatterElements(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeScatterNd(const Request& request,
                                                         const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_SCATTER_H_
