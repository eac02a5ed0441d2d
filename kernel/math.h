// SPDX-License-Identifier: Apache-2.0
// The functions of a Kernel, written in its primitives: one definition for Halide on CPU and CUDA
// and for the VM.
//
// An expansion uses only arithmetic, fma, comparisons, selects, bit casts and shifts. Special
// values (NaN, infinities, signed zeros, denormals) are right for every input. Bounds over all f32
// inputs stand in docs/numerics.md; ULP bounds of math version 1: exp, log, sigmoid <= 2, tanh, erf
// <= 3 (see the table for the measured ones). Coefficients are immediates here and no part of the
// text; changing any bit of a released result means a new kMathVersion.
#ifndef KILN_KERNEL_MATH_H_
#define KILN_KERNEL_MATH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernel/kernel.h"

namespace kiln {

// Replaces every function node by its expansion. kUnimplemented names the function and type that
// have none.
absl::StatusOr<ScalarExpr> ExpandMath(const ScalarExpr& expr);

// What usual operands take of it, which is what it costs: right for them alone.
absl::StatusOr<ScalarExpr> ExpandForUsual(const ScalarExpr& expr);

// ExpandMath for all expressions of a kernel.
absl::StatusOr<Kernel> ExpandMath(const Kernel& kernel);

// True if ExpandMath knows `op` for `type`.
bool HasExpansion(ScalarOp op, DType type);

// Operations of the expansion of `op` for `type`, those on 8 bytes counted twice; 1 where it has
// none. Of philox always those for u64.
int64_t ExpandedSize(ScalarOp op, DType type);

}  // namespace kiln

#endif  // KILN_KERNEL_MATH_H_
