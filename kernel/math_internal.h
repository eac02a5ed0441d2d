// SPDX-License-Identifier: Apache-2.0
// The two families of expansions behind math.h. Private to kernel/.
#ifndef KILN_KERNEL_MATH_INTERNAL_H_
#define KILN_KERNEL_MATH_INTERNAL_H_

#include <optional>

#include "kiln/kernel/scalar_expr.h"

namespace kiln::math_internal {

// exp, log, tanh, erf, sigmoid, rsqrt in f32 arithmetic: the functions of networks, counted in
// operations.
std::optional<Ex> ExpandFast(ScalarOp op, Ex x);

// Everything else of one f32 operand, and pow, computed in f64 and rounded once: near to correctly
// rounded, at half the vector width. Also the f64 functions that have an expansion. `y` is used by
// pow only.
std::optional<Ex> ExpandWide(ScalarOp op, Ex x, Ex y);

}  // namespace kiln::math_internal

#endif  // KILN_KERNEL_MATH_INTERNAL_H_
