// SPDX-License-Identifier: Apache-2.0
// Whether the operands of a launch are what its kernel was made for: extents that agree with the
// dims that they iterate over, strides as the kernel's text promises them.
#ifndef KILN_EXEC_KERNEL_OPERANDS_H_
#define KILN_EXEC_KERNEL_OPERANDS_H_

#include "absl/status/status.h"
#include "exec/operands.h"
#include "kernel/kernel.h"

namespace kiln {

// kInvalidArgument, kOutOfRange: names the operand and both values.
absl::Status CheckKernelOperands(const Kernel& kernel, const Operands& operands);

}  // namespace kiln

#endif  // KILN_EXEC_KERNEL_OPERANDS_H_
