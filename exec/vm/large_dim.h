// SPDX-License-Identifier: Apache-2.0
// Arguments of launches beyond 32 bits: extents are int64_t, and BufferArg.dim (kernel/abi.h)
// points to LargeDims. Only the VM runs them.
#ifndef KILN_EXEC_VM_LARGE_DIM_H_
#define KILN_EXEC_VM_LARGE_DIM_H_

#include <cstdint>

namespace kiln {

struct LargeDim {
  int64_t extent = 0, stride = 0;  // elements
};

}  // namespace kiln

#endif  // KILN_EXEC_VM_LARGE_DIM_H_
