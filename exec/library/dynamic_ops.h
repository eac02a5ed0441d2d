// SPDX-License-Identifier: Apache-2.0
// Operators whose results have as many elements as the data say: elements, measure, match_extent,
// nonzero, compress, unique, non_max_suppression. Their meaning is that of the records
// (graph/ops/dynamic.cc).
#ifndef KILN_EXEC_LIBRARY_DYNAMIC_OPS_H_
#define KILN_EXEC_LIBRARY_DYNAMIC_OPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

bool IsDynamic(absl::string_view op);

// Dense inputs on the CPU (an absent one has no data) to new outputs. An absent attribute `axis`
// means all elements in a row. kInvalidArgument: they do not go together. Thread-safe.
absl::StatusOr<std::vector<Tensor>> RunDynamic(absl::string_view op, const Attributes& attributes,
                                               const std::vector<Tensor>& inputs);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DYNAMIC_OPS_H_
