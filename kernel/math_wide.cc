// SPDX-License-Identifier: Apache-2.0
// Functions of f32 operands computed in f64 and rounded once at the end; 40 bits are plenty before
// that. A denormal f32 is a normal f64.
#include <initializer_list>
#include <iterator>

#include "kernel/math_internal.h"

namespace kiln::math_internal {
namespace {

constexpr double kInf = __builtin_inf();

Ex Nan(Ex like) { return like.Like(__builtin_nan("")); }

struct Wide {
  // e^x = scale1 * scale2 * (1 + part), part = e^r - 1, |r| <= ln 2 / 2.
  struct Exponential {
    Ex part, scale1, scale2;
  };

  Exponential Split(Ex x) const {
    x = Select(x.Like(100) < x, x.Like(100), x);
    x = Select(x < x.Like(-120), x.Like(-120), x);
    const Ex magic = x.Like(0x1.8p52);
    const Ex sum = Fma(x, x.Like(0x1.71547652b82fep+0), magic);
    const Ex n = sum - magic;
    Ex r = Fma(n, x.Like(-0x1.62e42fefa39efp-1), x);
    r = Fma(n, x.Like(-0x1.abc9e3b39803fp-56), r);
    constexpr int degree = 9;
    double factorial = 1;
    for (int i = 2; i <= degree; ++i) factorial *= i;
    Ex q = x.Like(1 / factorial);
    for (int i = degree; i > 1; --i) {
      factorial /= i;
      q = Fma(q, r, x.Like(1 / factorial));
    }
    // The low 12 bits of the sum are n; a shift by 52 makes them an exponent.
    const Ex bits = WideBits(sum);
    const Ex half = Shr(Bitcast(bits, DType::kI64), 1);
    const Ex n1 = Bitcast(half, DType::kU64);
    const Ex n2 = bits - n1;
    const Ex one = Word(x, 0x3ff0000000000000u);
    return {r * q, Doubles(Shl(n1, 52) + one), Doubles(Shl(n2, 52) + one)};
  }
  Ex Exp(Ex x) const {
    const Exponential e = Split(x);
    return Fma(e.scale1, e.part, e.scale1) * e.scale2;
  }

  // log of a positive, finite, normal x, plus `extra`.
  Ex LogNormal(Ex x, Ex extra) const {
    const Ex biased = Shr(WideBits(x) + Word(x, 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu), 52);
    const Ex m = Doubles(WideBits(x) - Shl(biased - biased.Like(1023), 52));
    // An integer below 2^52 in the low bits of 1.5 * 2^52 is that float plus the integer.
    const Ex e = Doubles(biased + Word(x, 0x4338000000000000u)) - x.Like(0x1.8p52 + 1023);
    const Ex s = (m - x.Like(1)) / (m + x.Like(1));
    const Ex z = s * s;
    constexpr int terms = 8;
    Ex p = x.Like(1.0 / (2 * terms + 1));
    for (int j = terms - 1; j >= 1; --j) p = Fma(p, z, x.Like(1.0 / (2 * j + 1)));
    const Ex twice = s + s;
    const Ex low = Fma(e, x.Like(0x1.abc9e3b39803fp-56), Fma(twice * z, p, extra));
    return Fma(e, x.Like(0x1.62e42fefa39efp-1), twice + low);
  }
  // `value` where x is positive and finite, else log x.
  Ex LogSpecials(Ex x, Ex value) const {
    const Ex zero = x.Like(0);
    const Ex special = Select(x == zero, x.Like(-kInf), Select(x < zero, Nan(x), x));
    return Select((zero < x) && (x < x.Like(kInf)), value, special);
  }
  Ex Log(Ex x) const { return LogSpecials(x, LogNormal(x, x.Like(0))); }
  // log(1 + x): what 1 + x rounds away comes back as a first-order term.
  Ex Log1p(Ex x) const {
    const Ex u = x + x.Like(1);
    const Ex lost = Select(x < x.Like(1), x - (u - x.Like(1)), x.Like(1) - (u - x)) / u;
    return Select(x == x.Like(0), x, LogSpecials(u, LogNormal(u, lost)));
  }

  Ex Asinh(Ex x) const {
    const Ex t = Abs(x);
    const Ex square = t * t;
    const Ex value = Log1p(t + square / (x.Like(1) + Sqrt(x.Like(1) + square)));
    return FlipSign(Select(t < x.Like(kInf), value, t), x);
  }
  Ex Acosh(Ex x) const {
    const Ex d = x - x.Like(1);
    return Select(x.Like(1) <= x, Log1p(d + Sqrt(d * (x + x.Like(1)))), Nan(x));
  }
  Ex Atanh(Ex x) const {
    const Ex t = Abs(x);
    return FlipSign(x.Like(0.5) * Log1p((t + t) / (x.Like(1) - t)), x);
  }

  Ex Cbrt(Ex x) const { return FlipSign(Exp(Log(Abs(x)) * x.Like(1.0 / 3)), x); }

  // Numerical Recipes' erfcc: relative error 1.2e-7 everywhere.
  Ex Erfc(Ex x) const {
    const Ex z = Abs(x);
    const Ex t = x.Like(1) / Fma(z, x.Like(0.5), x.Like(1));
    Ex p = x.Like(0.17087277);
    for (const double c : {-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806,
                           0.09678418, 0.37409196, 1.00002368, -1.26551223}) {
      p = Fma(p, t, x.Like(c));
    }
    const Ex tail = t * Exp(Fma(-z, z, p));
    return Select(x < x.Like(0), x.Like(2) - tail, tail);
  }

  Ex Pow(Ex x, Ex y) const { return PowSpecials(x, y, Exp(y * Log(Abs(x)))); }
};

// x = n * pi/2 + r for x >= 0, n modulo 4.
struct Quadrant {
  Ex n, r;
};

// For x >= 2^50, where n itself has no exact f64: x * (2/pi) piece by piece, each an exact product
// of 24 by 24 bits, whole periods dropped from each. Pieces before the second are multiples of 4
// here; those after the eighth are below 2^-40.
Quadrant ReduceLarge(Ex x) {
  constexpr double kPieces[] = {0x6e4e44p-48,  0x1529fcp-72,  0x2757d1p-96, 0xf534ddp-120,
                                0xc0db62p-144, 0x95993cp-168, 0x439041p-192};
  Ex sum = x.Like(0);
  for (size_t k = std::size(kPieces); k-- > 0;) {
    const Ex piece = x * x.Like(kPieces[k]);
    sum = sum + Fma(Round(piece * x.Like(0.25)), x.Like(-4), piece);
  }
  const Ex n = Round(sum);
  return {n, (sum - n) * x.Like(0x1.921fb54442d18p+0)};
}

Quadrant Reduce(Ex x) {
  const Ex small_n = Round(x * x.Like(0x1.45f306dc9c883p-1));
  const Ex small_r =
      Fma(small_n, x.Like(-0x1.1a62633145c07p-54), Fma(small_n, x.Like(-0x1.921fb54442d18p+0), x));
  const Quadrant large = ReduceLarge(x);
  const Ex is_small = x < x.Like(0x1p50);
  const Ex n = Select(is_small, small_n, large.n);
  const Ex quarter = Apply(ScalarOp::kFloor, n * x.Like(0.25));
  return {Fma(quarter, x.Like(-4), n), Select(is_small, small_r, large.r)};
}

Ex SinSeries(Ex r) {
  const Ex z = r * r;
  Ex p = r.Like(1.0 / 6227020800.0);
  for (const double c : {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6})
    p = Fma(p, z, r.Like(c));
  return Fma(r * z, p, r);
}

Ex CosSeries(Ex r) {
  const Ex z = r * r;
  Ex p = r.Like(1.0 / 479001600.0);
  for (const double c : {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0})
    p = Fma(p, z, r.Like(c));
  return p;
}

Ex SinCosTan(ScalarOp op, Ex x) {
  const Quadrant q = Reduce(Abs(x));
  const Ex one = x.Like(1);
  const Ex two = x.Like(2);
  const Ex sin = SinSeries(q.r);
  const Ex cos = CosSeries(q.r);
  const Ex odd = (q.n == one) || (q.n == x.Like(3));
  if (op == ScalarOp::kTan) return FlipSign(Select(odd, -cos / sin, sin / cos), x);
  if (op == ScalarOp::kSin) {
    const Ex value = Select(odd, cos, sin);
    return FlipSign(Select(two <= q.n, -value, value), x);
  }
  const Ex value = Select(odd, sin, cos);
  return Select((q.n == one) || (q.n == two), -value, value);
}

std::optional<Ex> ForFloat(ScalarOp op, Ex x, Ex y) {
  const Wide wide;
  switch (op) {
    case ScalarOp::kLog2:
      return wide.Log(x) * x.Like(0x1.71547652b82fep+0);
    case ScalarOp::kLog1p:
      return wide.Log1p(x);
    case ScalarOp::kAtanh:
      return wide.Atanh(x);
    case ScalarOp::kExp2:
      return wide.Exp(x * x.Like(0x1.62e42fefa39efp-1));
    case ScalarOp::kAsinh:
      return wide.Asinh(x);
    case ScalarOp::kAcosh:
      return wide.Acosh(x);
    case ScalarOp::kCbrt:
      return wide.Cbrt(x);
    case ScalarOp::kErfc:
      return wide.Erfc(x);
    case ScalarOp::kPow:
      return wide.Pow(x, y);
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      return SinCosTan(op, x);
    default:
      return std::nullopt;
  }
}

// Exponents that canonical text keeps as literals.
std::optional<Ex> SmallPower(Ex x, Ex y) {
  const ExprNode& node = y.expr->node(y.id);
  if (node.op != ScalarOp::kConst) return std::nullopt;
  const double value = ConstValue(node.type, node.imm);
  if (value == 1) return x;
  if (value == 2) return x * x;
  if (value == 3) return x * x * x;
  if (value == -1) return x.Like(1) / x;
  return std::nullopt;
}

}  // namespace

Ex FlipSign(Ex value, Ex x) {
  return Doubles(Apply(ScalarOp::kXor, WideBits(value),
                       Apply(ScalarOp::kAnd, WideBits(x), Word(x, uint64_t{1} << 63))));
}

Ex PowSpecials(Ex x, Ex y, Ex magnitude) {
  const Ex zero = x.Like(0);
  const Ex one = x.Like(1);
  const Ex fixed = Select(Abs(x) == one, Select(Apply(ScalarOp::kIsNan, y), y, one), magnitude);
  const Ex whole = Trunc(y) == y;
  const Ex half = y * x.Like(0.5);
  const Ex odd = whole && (Trunc(half) != half);
  const Ex signed_value = Select(odd, FlipSign(fixed, x), fixed);
  const Ex outside = (x < zero) && (x.Like(-kInf) < x) && !whole;
  return Select((y == zero) || (x == one), one, Select(outside, Nan(x), signed_value));
}

std::optional<Ex> ExpandWide(ScalarOp op, Ex x, Ex y) {
  if (op == ScalarOp::kPow) {
    if (const std::optional<Ex> power = SmallPower(x, y)) return power;
  }
  if (op == ScalarOp::kFmod) return Fmod(x, y);
  if (x.type() == DType::kF64) return ExpandDouble(op, x, y);
  const std::optional<Ex> value = ForFloat(op, Cast(x, DType::kF64), Cast(y, DType::kF64));
  if (!value) return std::nullopt;
  return Cast(*value, DType::kF32);
}

}  // namespace kiln::math_internal
