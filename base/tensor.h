// SPDX-License-Identifier: Apache-2.0
// What the inside of Kiln needs of tensors (kiln/tensor.h): strides and sizes from shapes. Shapes
// that come from outside go to TryAllocate (try_allocate.h).
#ifndef KILN_BASE_TENSOR_H_
#define KILN_BASE_TENSOR_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/target.h"
#include "kiln/tensor.h"

namespace kiln {

// Row-major strides, in elements, of a dense tensor of `shape`.
std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape);

// Bytes of a dense tensor, or -1 if an extent is negative or the product does not fit in int64. As
// in NumPy, the other extents of an empty tensor must fit too: strides and offsets then never
// overflow.
int64_t CheckedBytes(DType type, const std::vector<int64_t>& shape);

}  // namespace kiln

#endif  // KILN_BASE_TENSOR_H_
