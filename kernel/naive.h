// SPDX-License-Identifier: Apache-2.0
// EvalKernel runs a Kernel one element at a time, bit-exact by the rules of scalar_expr.h and
// kernel.h. The third opinion that tests set against the VM and compiled code; far too slow for
// anything else.
#ifndef KILN_KERNEL_NAIVE_H_
#define KILN_KERNEL_NAIVE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernel/kernel.h"

namespace kiln {

// An operand in the caller's memory: strides in elements, per axis as in the text (outermost
// first).
struct NaiveBuffer {
  void* data = nullptr;
  std::vector<int64_t> strides;
};

// Row-major strides for axes of these extents.
std::vector<int64_t> DenseStrides(std::span<const int64_t> extents);

// `extents`: of each dim, iterated then sizes; `params`: bits as kConst holds them. Reads outside
// an operand give 0 (they can only stand under a false guard). Fails if the kernel does not verify
// or a function has no expansion.
absl::Status EvalKernel(const Kernel& kernel, std::span<const NaiveBuffer> inputs,
                        std::span<const int64_t> extents, std::span<const uint64_t> params,
                        std::span<const NaiveBuffer> outputs);

// The reduction of a row of values by the rule of kernel.h; `innermost` chooses the lane rule.
uint64_t ReduceRow(ReduceOp op, DType type, std::vector<uint64_t> row, bool innermost);

// One element of memory as bits of ComputeType(type), and back (16-bit floats round).
uint64_t LoadElement(const void* data, DType type, int64_t offset);
void StoreElement(void* data, DType type, int64_t offset, uint64_t bits);

}  // namespace kiln

#endif  // KILN_KERNEL_NAIVE_H_
