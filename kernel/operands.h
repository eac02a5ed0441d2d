// SPDX-License-Identifier: Apache-2.0
// What is read where in a Kernel.
#ifndef KILN_KERNEL_OPERANDS_H_
#define KILN_KERNEL_OPERANDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// The dims of the operand that the read `node` is of.
const std::vector<int32_t>& OperandDims(const Kernel& kernel, const ExprNode& node);

// All expressions of the kernel: stages first, then outputs.
std::vector<const ScalarExpr*> Expressions(const Kernel& kernel);

// Whether a reduction of the kernel has no elements at these extents, one for each dim.
bool ReducesNothing(const Kernel& kernel, std::span<const int64_t> extents);

}  // namespace kiln

#endif  // KILN_KERNEL_OPERANDS_H_
