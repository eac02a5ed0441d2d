// SPDX-License-Identifier: Apache-2.0
// fmod, exact: long division in steps of 52 bits of the quotient.
//
// For m <= r < 2^53 m, where m divides every bit of r down to its own last one, the quotient
// trunc(r / m) is right or one too large, and r - quotient * m is a number of f64: one fma gives
// it, and adding m back mends it. So the remainders by y * 2^(52 k), for k from the largest down to
// 0, end with the remainder by y. Operands of f32 are numbers of f64, whose exponents leave room
// for every multiple; those of f64 do not, and a modulus that cannot grow is taken once more
// instead.
#include <vector>

#include "kernel/math_internal.h"

namespace kiln::math_internal {
namespace {

constexpr double kInf = __builtin_inf();
constexpr double kStep = 0x1p52;

// r mod m for 0 <= r < 2^53 m; NaN where either is NaN, r is infinite or m is 0.
Ex Remainder(Ex r, Ex m) {
  const Ex rest = Fma(-Trunc(r / m), m, r);
  return Select(rest < r.Like(0), rest + m, rest);
}

// r mod m for all 0 <= r, 0 < m whose quotient is below 2^(52 * steps).
Ex LongRemainder(Ex r, Ex m, int steps, bool may_overflow) {
  std::vector<Ex> moduli = {m};
  for (int k = 1; k < steps; ++k) {
    const Ex last = moduli.back();
    const Ex next = last * m.Like(kStep);
    moduli.push_back(may_overflow ? Select(last < m.Like(0x1p971), next, last) : next);
  }
  for (int k = steps; k-- > 0;) r = Remainder(r, moduli[static_cast<size_t>(k)]);
  return r;
}

Ex FmodOfDoubles(Ex x, Ex y, int steps, bool may_overflow) {
  const Ex a = Abs(x), b = Abs(y);
  const Ex inf = x.Like(kInf);
  // Quotients of 2^52 and more are rare: the chosen form is one that code branches on.
  const Ex rest =
      Select(a < b * x.Like(kStep), Remainder(a, b), LongRemainder(a, b, steps, may_overflow));
  return FlipSign(Select(b == inf && a < inf, a, rest), x);
}

}  // namespace

Ex Fmod(Ex x, Ex y) {
  // Largest quotients: 2^(1024 + 1074) of f64, 2^(128 + 149) of f32.
  if (x.type() == DType::kF64) return FmodOfDoubles(x, y, 41, true);
  return Cast(FmodOfDoubles(Cast(x, DType::kF64), Cast(y, DType::kF64), 6, false), DType::kF32);
}

}  // namespace kiln::math_internal
