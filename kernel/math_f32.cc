// SPDX-License-Identifier: Apache-2.0
// The functions of networks in f32 arithmetic. NaN needs no select where every path to the result
// multiplies by it. Polynomials that name no source are math_coefficients.py's.
#include <initializer_list>

#include "kernel/math_internal.h"

namespace kiln::math_internal {
namespace {

Ex Bits(Ex a) { return Bitcast(a, DType::kI32); }
Ex Floats(Ex a) { return Bitcast(a, DType::kF32); }

// Both keep a NaN, and are one vector instruction.
Ex AtMost(Ex x, float limit) { return Select(x.Like(limit) < x, x.Like(limit), x); }
Ex AtLeast(Ex x, float limit) { return Select(x < x.Like(limit), x.Like(limit), x); }

// Coefficients from the highest power down.
Ex Horner(Ex x, std::initializer_list<double> coefficients) {
  Ex sum = x.Like(*coefficients.begin());
  for (const double* c = coefficients.begin() + 1; c != coefficients.end(); ++c)
    sum = Fma(sum, x, x.Like(*c));
  return sum;
}

Ex SignBit(Ex x) {
  return Apply(ScalarOp::kAnd, Bits(x), LiteralBits(*x.expr, DType::kI32, 0x80000000u));
}

// `magnitude` (not negative, or NaN) with the sign of x.
Ex WithSign(Ex magnitude, Ex x) {
  return Floats(Apply(ScalarOp::kOr, Bits(magnitude), SignBit(x)));
}

// e^x = 2^n e^r with n = round(x / ln 2). Adding 1.5 * 2^23 + bias rounds, and leaves n + bias in
// the low bits of the sum, from where a shift by 23 brings it into the exponent: the upper bits of
// the constant fall out.
constexpr double kMagic = 0x1.8p23;

struct ExpParts {
  Ex r;           // in [-0.35, 0.35]; NaN for NaN
  Ex power_bits;  // of 2^(n + bias - 127), for n + bias in [1, 254]; 0 for 0
};

// `magic` is kMagic + bias.
ExpParts SplitExp(Ex x, Ex magic) {
  const Ex sum = Fma(x, x.Like(0x1.715476p+0), magic);
  const Ex n = sum - magic;
  Ex r = Fma(n, x.Like(-0x1.62e430p-1), x);
  r = Fma(n, x.Like(0x1.05c610p-29), r);
  return {r, Shl(Bits(sum), 23)};
}

// (e^r - 1 - r) / r^2, minimax on |r| <= ln 2 / 2: 0.06 ULP of e^r.
Ex ExpTail(Ex r) {
  return Horner(r, {0x1.6a2420p-10, 0x1.1239ecp-7, 0x1.5558f2p-5, 0x1.555492p-3, 0x1.fffffcp-2});
}

// e^r - 1, of which nothing cancels, and e^r.
Ex ExpFractionLessOne(Ex r) { return Fma(r * r, ExpTail(r), r); }
Ex ExpFraction(Ex r) { return Fma(Fma(ExpTail(r), r, r.Like(1)), r, r.Like(1)); }

// For x in [-87, 88]: the result is normal.
Ex ExpNormal(Ex x) {
  const ExpParts parts = SplitExp(x, x.Like(kMagic + 127));
  return ExpFraction(parts.r) * Floats(parts.power_bits);
}

// The power is kept some way off and made good by a product, so that denormal results round once
// and large ones overflow. What is below kNothing, as masked scores are, becomes that, whose n of
// -152 makes the power 0: processors take a hundred cycles for a product that underflows, and no
// more than for others for one with 0.
constexpr int kOffLow = 25, kOffHigh = -64;
constexpr float kNothing = -105.3f;

// Results from 0 to infinity.
Ex Exp(Ex x) {
  x = AtMost(x, 89.0f);
  const Ex low = x < x.Like(0);
  const Ex magic = Select(low, x.Like(kMagic + 127 + kOffLow), x.Like(kMagic + 127 + kOffHigh));
  const ExpParts parts = SplitExp(AtLeast(x, kNothing), magic);
  return ExpFraction(parts.r) * Floats(parts.power_bits) *
         Select(low, x.Like(0x1p-25), x.Like(0x1p64));
}

// log x = e ln 2 + log(1 + f), 1 + f in [sqrt 1/2, sqrt 2]; polynomial of Cephes' logf.
Ex Log(Ex x) {
  const Ex denormal = x < x.Like(0x1p-126);
  const Ex bits = Bits(Select(denormal, x * x.Like(0x1p23), x));
  const Ex exponent = Shr(bits - bits.Like(0x3f3504f3), 23);
  const Ex f = Floats(bits - Shl(exponent, 23)) - x.Like(1);
  const Ex e = Cast(exponent, DType::kF32) + Select(denormal, x.Like(-23), x.Like(0));
  const Ex p = Horner(
      f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
          -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  const Ex square = f * f;
  Ex low = Fma(e, x.Like(-2.12194440e-4), p * f * square);
  low = Fma(square, x.Like(-0.5), low);
  const Ex value = Fma(e, x.Like(0.693359375), f + low);
  const Ex infinity = x.Like(__builtin_inf());
  const Ex special = Select(x == x.Like(0), x.Like(-__builtin_inf()),
                            Select(x < x.Like(0), x.Like(__builtin_nan("")), x));
  return Select((x.Like(0) < x) && (x < infinity), value, special);
}

// m / (m + 2) with m = e^2|x| - 1 = 2^n (e^r - 1) + 2^n - 1, of which nothing cancels.
Ex Tanh(Ex x) {
  const Ex t = Abs(x);
  const ExpParts parts = SplitExp(AtMost(t + t, 20.0f), x.Like(kMagic + 127));
  const Ex power = Floats(parts.power_bits);
  const Ex p = ExpFractionLessOne(parts.r);
  const Ex m = Fma(power, p, power - x.Like(1));
  return WithSign(m / (m + x.Like(2)), x);
}

// m as in Tanh, with half the power, which is finite where the result is; near 0 x itself.
Ex Expm1(Ex x) {
  const ExpParts parts = SplitExp(AtLeast(AtMost(x, 89.0f), -20.0f), x.Like(kMagic + 126));
  const Ex half = Floats(parts.power_bits);
  const Ex p = ExpFractionLessOne(parts.r);
  const Ex m = Fma(half, p, half - x.Like(0.5));
  return Select(Abs(x) < x.Like(0x1p-25), x, m + m);
}

// A quarter of the power is finite where the result is.
ExpParts SplitQuarter(Ex t) { return SplitExp(AtMost(t, 89.7f), t.Like(kMagic + 125)); }

// (e^t + e^-t) / 2 for t = |x|, of q = e^t / 4.
Ex Cosh(Ex x) {
  const ExpParts parts = SplitQuarter(Abs(x));
  const Ex q = ExpFraction(parts.r) * Floats(parts.power_bits);
  return q + q + x.Like(0.125) / q;
}

// (m + m / (m + 1)) / 2 for t = |x|, m as in Tanh, of q = m / 4; near 0 x itself.
Ex Sinh(Ex x) {
  const Ex t = Abs(x);
  const ExpParts parts = SplitQuarter(t);
  const Ex quarter = Floats(parts.power_bits);
  const Ex p = ExpFractionLessOne(parts.r);
  const Ex q = Fma(quarter, p, quarter - x.Like(0.25));
  const Ex twice = q + q;
  const Ex far = WithSign(twice + q / (twice + x.Like(0.5)), x);
  return Select(t < x.Like(0x1p-12), x, far);
}

// max(x, 0) + log(1 + t) with t = e^-|x|, which is t + t^2 q(t): q to 2^-30 of the sum.
Ex Softplus(Ex x) {
  const Ex t = ExpNotPositive(-Abs(x));
  const Ex q =
      Horner(t, {0x1.113634p-9, -0x1.c0a200p-7, 0x1.58ff44p-5, -0x1.54f16cp-4, 0x1.ff28d8p-4,
                 -0x1.4a72b2p-3, 0x1.978b54p-3, -0x1.ffc59ep-3, 0x1.5553b6p-2, -0x1.fffff8p-2});
  return AtLeast(x, 0) + Fma(t * t, q, t);
}

// atan u for u in [0, 1], u + u^3 p(u^2): to 2^-28.5 of it. Above 1 it is pi/2 - atan(1 / |x|).
Ex Atan(Ex x) {
  const Ex t = Abs(x);
  const Ex one = x.Like(1);
  const Ex u = Select(one < t, one / t, t);
  const Ex square = u * u;
  const Ex p =
      Horner(square, {-0x1.d4984ap-10, 0x1.64c1cep-7, -0x1.fdfc1cp-6, 0x1.da5ed4p-5, -0x1.58155ep-4,
                      0x1.c08f64p-4, -0x1.2420b6p-3, 0x1.9991e6p-3, -0x1.55553ep-2});
  const Ex angle = Fma(u * square, p, u);
  return WithSign(Select(one < t, x.Like(0x1.921fb6p+0) - angle, angle), x);
}

// With asin s = s + s^3 p(s^2) for s in [0, 1/2], to 2^-27.6 of it; beyond, |x| = 1 - 2 s^2 and
// asin |x| = pi/2 - 2 asin s. NaN for |x| > 1, of whose s^2 there is no root.
struct AsinParts {
  Ex near;   // |x| <= 1/2
  Ex angle;  // asin of |x| or s
};
AsinParts SplitAsin(Ex x) {
  const Ex t = Abs(x);
  const Ex near = t <= x.Like(0.5);
  const Ex half = Fma(t, x.Like(-0.5), x.Like(0.5));
  const Ex square = Select(near, t * t, half);
  const Ex s = Select(near, t, Sqrt(half));
  const Ex p =
      Horner(square, {0x1.595c60p-5, 0x1.8c3e50p-6, 0x1.747bb8p-5, 0x1.330204p-4, 0x1.5555c8p-3});
  return {near, Fma(s * square, p, s)};
}

// The constants are pi/2 in two parts.
Ex Asin(Ex x) {
  const AsinParts parts = SplitAsin(x);
  const Ex far = Fma(parts.angle, x.Like(-2), x.Like(-0x1.777a5cp-25)) + x.Like(0x1.921fb6p+0);
  return WithSign(Select(parts.near, parts.angle, far), x);
}

Ex Acos(Ex x) {
  const AsinParts parts = SplitAsin(x);
  const Ex below = x < x.Like(0);
  const Ex near =
      x.Like(0x1.921fb6p+0) - (Select(below, -parts.angle, parts.angle) + x.Like(0x1.777a5cp-25));
  const Ex twice = parts.angle + parts.angle;
  const Ex far = Select(below, x.Like(0x1.921fb6p+1) - (twice + x.Like(0x1.777a5cp-24)), twice);
  return Select(parts.near, near, far);
}

// sin and cos of r, |r| <= pi/4 and a little: to 2^-28 and 2^-33 of them.
Ex SinNear(Ex r, Ex square) {
  return Fma(r * square, Horner(square, {-0x1.995300p-13, 0x1.110776p-7, -0x1.555546p-3}), r);
}
Ex CosNear(Ex square) {
  const Ex p = Horner(square, {0x1.99e904p-16, -0x1.6c0c2ap-10, 0x1.55554ap-5});
  return Fma(square * square, p, Fma(square, square.Like(-0.5), square.Like(1)));
}

// sin(|x| + quadrants pi/2): |x| = n pi/2 + r, pi/2 in three parts, and n, as of SplitExp, in the
// low bits of the sum. For |x| below kMostReduced, beyond which n is off by too much: what few
// operands take (halide_gen/cpu/slow_paths.h).
constexpr float kMostReduced = 8192;

Ex SinOfQuadrant(Ex t, int quadrants) {
  const Ex magic = t.Like(kMagic);
  const Ex sum = Fma(t, t.Like(0x1.45f306p-1), magic);
  const Ex n = sum - magic;
  Ex r = Fma(n, t.Like(-0x1.921fb6p+0), t);
  r = Fma(n, t.Like(0x1.777a5cp-25), r);
  r = Fma(n, t.Like(0x1.ee59dap-50), r);
  const Ex square = r * r;
  const Ex bits = quadrants == 0 ? Bits(sum) : Bits(sum) + Bits(sum).Like(quadrants);
  const Ex odd = Apply(ScalarOp::kAnd, bits, bits.Like(1)) == bits.Like(1);
  const Ex value = Select(odd, CosNear(square), SinNear(r, square));
  const Ex sign = Shl(Apply(ScalarOp::kAnd, bits, bits.Like(2)), 30);
  return Floats(Apply(ScalarOp::kXor, Bits(value), sign));
}

Ex Sin(Ex x, Operands operands) {
  const Ex t = Abs(x);
  const Ex near = Floats(Apply(ScalarOp::kXor, Bits(SinOfQuadrant(t, 0)), SignBit(x)));
  if (operands == Operands::kUsual) return near;
  return Select(t < x.Like(kMostReduced), near, *ExpandWide(ScalarOp::kSin, x, x));
}

Ex Cos(Ex x, Operands operands) {
  const Ex t = Abs(x);
  const Ex near = SinOfQuadrant(t, 1);
  if (operands == Operands::kUsual) return near;
  return Select(t < x.Like(kMostReduced), near, *ExpandWide(ScalarOp::kCos, x, x));
}

// Near 0 an odd polynomial, else 1 - e^p(|x|). Coefficients: N. Juffa's public erff.
Ex Erf(Ex x) {
  const Ex t = Abs(x);
  const Ex square = t * t;
  const Ex near = Fma(Horner(square, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                                      -3.76125336e-1, 1.28379166e-1}),
                      t, t);
  const Ex high = Fma(x.Like(-1.72853470e-5), t, x.Like(3.83197126e-4));
  const Ex low = Fma(x.Like(-3.88396438e-3), t, x.Like(2.42546219e-2));
  Ex p = Fma(high, square, low);
  for (const double c : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1}) p = Fma(p, t, x.Like(c));
  p = Fma(p, t, -t);
  const Ex far = x.Like(1) - ExpNormal(AtLeast(p, -80.0f));
  return WithSign(Select(t <= x.Like(0.927734375), near, far), x);
}

// With e = e^-|x| and q = e / (1 + e): e - e q below 0, 1 - q above. The roundings of q count
// little in either: 1.65 ULP at most, where q itself is off by 2.4.
Ex Sigmoid(Ex x) {
  const Ex e = ExpNotPositive(-Abs(x));
  const Ex q = e / (e + x.Like(1));
  const Ex base = Select(x < x.Like(0), e, x.Like(1));
  return Fma(-base, q, base);
}

}  // namespace

Ex ExpNotPositive(Ex x) {
  const ExpParts parts = SplitExp(AtLeast(x, kNothing), x.Like(kMagic + 127 + kOffLow));
  return ExpFraction(parts.r) * Floats(parts.power_bits) * x.Like(0x1p-25);
}

std::optional<Ex> ExpandFast(ScalarOp op, Ex x, Operands operands) {
  switch (op) {
    case ScalarOp::kExp:
      return Exp(x);
    case ScalarOp::kLog:
      return Log(x);
    case ScalarOp::kTanh:
      return Tanh(x);
    case ScalarOp::kErf:
      return Erf(x);
    case ScalarOp::kSigmoid:
      return Sigmoid(x);
    case ScalarOp::kExpm1:
      return Expm1(x);
    case ScalarOp::kSinh:
      return Sinh(x);
    case ScalarOp::kCosh:
      return Cosh(x);
    case ScalarOp::kSoftplus:
      return Softplus(x);
    case ScalarOp::kSin:
      return Sin(x, operands);
    case ScalarOp::kCos:
      return Cos(x, operands);
    case ScalarOp::kAtan:
      return Atan(x);
    case ScalarOp::kAsin:
      return Asin(x);
    case ScalarOp::kAcos:
      return Acos(x);
    case ScalarOp::kRsqrt:
      return x.Like(1) / Sqrt(x);
    default:
      return std::nullopt;
  }
}

}  // namespace kiln::math_internal
