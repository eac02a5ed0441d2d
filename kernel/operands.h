// SPDX-License-Identifier: Apache-2.0
// What is read where in a Kernel.
#ifndef KILN_KERNEL_OPERANDS_H_
#define KILN_KERNEL_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// The dims of the operand that the read `node` is of.
const std::vector<int32_t>& OperandDims(const Kernel& kernel, const ExprNode& node);

// All expressions of the kernel: stages first, then outputs.
std::vector<const ScalarExpr*> Expressions(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_KERNEL_OPERANDS_H_
