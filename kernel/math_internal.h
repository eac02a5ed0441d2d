// SPDX-License-Identifier: Apache-2.0
// The three families of expansions behind math.h. Private to kernel/.
#ifndef KILN_KERNEL_MATH_INTERNAL_H_
#define KILN_KERNEL_MATH_INTERNAL_H_

#include <optional>

#include "kernel/scalar_expr.h"

namespace kiln::math_internal {

// Whether with what operands take that few are, such as angles of a thousand periods.
enum class Operands : bool { kAll, kUsual };

// The functions of networks in f32 arithmetic, counted in operations.
std::optional<Ex> ExpandFast(ScalarOp op, Ex x, Operands operands);

// exp of an f32 that is not above 0, or NaN: the bits of the other expansion in fewer operations.
Ex ExpNotPositive(Ex x);

// Everything else of one f32 operand, and pow, computed in f64 and rounded once: near to correctly
// rounded, at half the vector width.
// `y` is used by pow only. Hands f64 operands on to ExpandDouble.
std::optional<Ex> ExpandWide(ScalarOp op, Ex x, Ex y);

// All functions of f64 operands; what matters of them in sums of two f64.
std::optional<Ex> ExpandDouble(ScalarOp op, Ex x, Ex y);

// IEEE 754's pow(x, y), given the power of |x| wherever it is neither fixed nor undefined.
Ex PowSpecials(Ex x, Ex y, Ex magnitude);

// C's fmod of f32 or f64 operands, exact.
Ex Fmod(Ex x, Ex y);

// Philox2x32-10 of u64 operands (ScalarOp::kPhilox).
Ex Philox(Ex counter, Ex key);

// What the files of expansions write with.
inline Ex Fma(Ex a, Ex b, Ex c) { return Apply(ScalarOp::kFma, a, b, c); }
inline Ex Abs(Ex a) { return Apply(ScalarOp::kAbs, a); }
inline Ex Sqrt(Ex a) { return Apply(ScalarOp::kSqrt, a); }
inline Ex Round(Ex a) { return Apply(ScalarOp::kRound, a); }
inline Ex Trunc(Ex a) { return Apply(ScalarOp::kTrunc, a); }
inline Ex Shl(Ex a, int n) { return Apply(ScalarOp::kShl, a, a.Like(n)); }
inline Ex Shr(Ex a, int n) { return Apply(ScalarOp::kShr, a, a.Like(n)); }

// The bits of an f64 as u64, and back; and a u64 literal.
inline Ex WideBits(Ex a) { return Bitcast(a, DType::kU64); }
inline Ex Doubles(Ex a) { return Bitcast(a, DType::kF64); }
inline Ex Word(Ex like, uint64_t bits) { return LiteralBits(*like.expr, DType::kU64, bits); }

// f of |x| with the sign of x: how odd functions of f64 are made, and keep -0.
Ex FlipSign(Ex value, Ex x);

}  // namespace kiln::math_internal

#endif  // KILN_KERNEL_MATH_INTERNAL_H_
