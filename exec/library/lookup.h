// SPDX-License-Identifier: Apache-2.0
// x, table -> y: y = table[row, x], the row by the coordinate along `axis`, or the only one. Bytes.
#ifndef KILN_EXEC_LIBRARY_LOOKUP_H_
#define KILN_EXEC_LIBRARY_LOOKUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

absl::StatusOr<std::unique_ptr<Primitive>> MakeLookup(const Request& request,
                                                      const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_LOOKUP_H_
