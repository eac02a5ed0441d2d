// SPDX-License-Identifier: Apache-2.0
// Tensor::Allocate for shapes that come from outside: a model, a file, a run. What it throws is a
// Status here. Not in tensor.h, whose interface has no third-party type.
#ifndef KILN_BASE_TRY_ALLOCATE_H_
#define KILN_BASE_TRY_ALLOCATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/tensor.h"

namespace kiln {

// kResourceExhausted, with type and shape: more than `most_bytes` bytes, or not to be had. The
// limit is a caller's budget: memory that the system grants may not be there when it is touched.
absl::StatusOr<Tensor> TryAllocate(DType type, std::vector<int64_t> shape,
                                   int64_t most_bytes = INT64_MAX);

}  // namespace kiln

#endif  // KILN_BASE_TRY_ALLOCATE_H_
