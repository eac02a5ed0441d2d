// SPDX-License-Identifier: Apache-2.0
// Elements for operands of launches that are only timed.
#ifndef KILN_COMPILER_FILL_H_
#define KILN_COMPILER_FILL_H_

#include <cstring>

#include "base/tensor.h"

namespace kiln {

// f32: numbers near 1; other types, indices among them, 0: nothing that a kernel's time depends on.
inline void FillNearOne(const Tensor& tensor) {
  if (tensor.size_bytes() == 0) return;
  std::memset(tensor.data(), 0, static_cast<size_t>(tensor.size_bytes()));
  if (tensor.dtype() != DType::kF32) return;
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    static_cast<float*>(tensor.data())[i] = 1.0f + static_cast<float>(i % 64) * 0x1p-10f;
}

}  // namespace kiln

#endif  // KILN_COMPILER_FILL_H_
