// SPDX-License-Identifier: Apache-2.0
// Functions of f64 operands. Rounding every step to f64 would cost a few units in the last place,
// so what matters is kept as an unevaluated sum of two. Polynomials: math_coefficients.py.
#include <iterator>

#include "kernel/math_f64_tables.h"
#include "kernel/math_internal.h"

namespace kiln::math_internal {
namespace {

constexpr double kInf = __builtin_inf();

// high + low, |low| a few units of high's last place at most.
struct Sum {
  Ex high, low;
};

// Exact.
Sum TwoSum(Ex a, Ex b) {
  const Ex sum = a + b;
  const Ex from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}
// Exact if |a| >= |b| or a is 0.
Sum FastTwoSum(Ex a, Ex b) {
  const Ex sum = a + b;
  return {sum, b - (sum - a)};
}
// Exact unless it under- or overflows.
Sum TwoProduct(Ex a, Ex b) {
  const Ex product = a * b;
  return {product, Fma(a, b, -product)};
}

template <size_t n>
Ex Horner(Ex x, const double (&coefficients)[n]) {
  Ex sum = x.Like(coefficients[0]);
  for (size_t i = 1; i < n; ++i) sum = Fma(sum, x, x.Like(coefficients[i]));
  return sum;
}

Ex Finite(Ex x, Ex value, Ex otherwise) { return Select(Abs(x) < x.Like(kInf), value, otherwise); }

// ---- Powers of two and e.

// An integer `n` with |n| < 2^51, as the low bits of a word.
struct Integer {
  Ex value, bits;
};
Integer RoundToInteger(Ex x) {
  const Ex magic = x.Like(0x1.8p52);
  const Ex sum = x + magic;
  return {sum - magic, WideBits(sum)};
}
// 2^n for n in [-1022, 1023] in the low bits.
Ex PowerOfTwo(Ex bits) { return Doubles(Shl(bits, 52) + Word(bits, 0x3ff0000000000000u)); }

// scale1 * scale2 * (1 + part): in two steps, so that a result outside the normal range is rounded
// once more at most.
struct Exponential {
  Sum part;
  Ex bits1, bits2;  // low bits: the exponents of the scales
};

// e^r - 1 for |r| <= ln 2 / 2.
Sum ExpFraction(Sum r) {
  const Ex half = r.high * r.high.Like(0.5);
  const Sum square = TwoProduct(half, r.high);
  const Ex cube = r.high * r.high * (r.high * Horner(r.high, kExp));
  const Sum sum = FastTwoSum(r.high, square.high);
  const Ex low = sum.low + (square.low + cube);
  return FastTwoSum(sum.high, Fma(r.low, sum.high + low, low + r.low));
}

Exponential Scaled(Sum fraction, const Integer& n) {
  const Ex bits1 = Bitcast(Shr(Bitcast(n.bits, DType::kI64), 1), DType::kU64);
  return {fraction, bits1, n.bits - bits1};
}

// e^(x.high + x.low); x.low must be finite wherever x.high is not too large.
Exponential Exp(Sum x) {
  Ex high = Select(x.high.Like(711) < x.high, x.high.Like(711), x.high);
  high = Select(high < high.Like(-760), high.Like(-760), high);
  const Integer n = RoundToInteger(high * high.Like(0x1.71547652b82fep+0));
  // n * ln 2 ends at 2^-53, as x does: the first step is exact.
  const Ex first = Fma(n.value, high.Like(-0x1.62e42fefa39efp-1), high);
  const Sum second = TwoProduct(n.value, high.Like(0x1.abc9e3b39803fp-56));
  const Ex r = first - second.high;
  const Ex lost = (first - r) - second.high;
  return Scaled(ExpFraction({r, (lost - second.low) + x.low}), n);
}

// 1 + part.
Sum OnePlus(const Exponential& e) {
  const Sum sum = FastTwoSum(e.part.high.Like(1), e.part.high);
  return {sum.high, sum.low + e.part.low};
}

Ex Value(const Exponential& e) {
  const Sum one = OnePlus(e);
  return (one.high + one.low) * PowerOfTwo(e.bits1) * PowerOfTwo(e.bits2);
}

// a / b, rounded once.
Ex Quotient(Sum a, Sum b) {
  const Ex inverse = a.high.Like(1) / b.high;
  const Ex q = a.high * inverse;
  return q + (Fma(-q, b.high, a.high) + (a.low - q * b.low)) * inverse;
}

Ex Expm1(Ex x) {
  const Exponential e = Exp({x, x.Like(0)});
  const Sum one = OnePlus(e);
  const Ex scale = PowerOfTwo(e.bits1);
  // Before the second scale, which may be large: 1 is divided by it.
  const Sum sum = TwoSum(one.high * scale, -PowerOfTwo(e.bits2.Like(0) - e.bits2));
  const Ex value = (sum.high + Fma(one.low, scale, sum.low)) * PowerOfTwo(e.bits2);
  return Select(x == x.Like(0), x, value);
}

// d / (d + 2) with d = e^2t - 1; 1 for t >= 20.
Ex Tanh(Ex x) {
  const Ex t = Abs(x);
  const Ex limited = Select(t.Like(20) < t, t.Like(20), t);
  const Exponential e = Exp({limited + limited, t.Like(0)});
  const Sum one = OnePlus(e);
  const Ex scale = PowerOfTwo(e.bits1 + e.bits2);
  const Sum sum = TwoSum(one.high * scale, t.Like(-1));
  const Sum d = FastTwoSum(sum.high, Fma(one.low, scale, sum.low));
  const Sum below = TwoSum(d.high, t.Like(2));
  return FlipSign(Select(t == t.Like(0), t, Quotient(d, {below.high, below.low + d.low})), x);
}

// e^-|x| or 1, over 1 + e^-|x|: small results keep their bits.
Ex Sigmoid(Ex x) {
  const Ex one = x.Like(1), zero = x.Like(0);
  const Exponential e = Exp({-Abs(x), zero});
  const Sum fraction = OnePlus(e);
  const Ex scale1 = PowerOfTwo(e.bits1), scale2 = PowerOfTwo(e.bits2);
  const Sum below = TwoSum(one, fraction.high * scale1 * scale2);
  const Sum bottom = {below.high, Fma(fraction.low * scale1, scale2, below.low)};
  const Ex negative = x < zero;
  const Sum top = {Select(negative, fraction.high, one), Select(negative, fraction.low, zero)};
  return Quotient(top, bottom) * Select(negative, scale1, one) * Select(negative, scale2, one);
}

Ex Exp2(Ex x) {
  Ex limited = Select(x.Like(1030) < x, x.Like(1030), x);
  limited = Select(limited < x.Like(-1100), x.Like(-1100), limited);
  const Integer n = RoundToInteger(limited);
  const Ex fraction = limited - n.value;
  const Ex ln2 = x.Like(0x1.62e42fefa39efp-1);
  const Sum r = TwoProduct(fraction, ln2);
  return Value(
      Scaled(ExpFraction({r.high, Fma(fraction, x.Like(0x1.abc9e3b39803fp-56), r.low)}), n));
}

// (e^x - sign * e^-x) / 2 of x >= 0, accurate where the two are not near each other.
Ex HalfDifference(Ex x, double sign) {
  const Exponential e = Exp({x, x.Like(0)});
  const Sum sum = OnePlus(e);
  const Ex down1 = PowerOfTwo(e.bits1.Like(0) - e.bits1);
  const Ex down2 = PowerOfTwo(e.bits2.Like(0) - e.bits2);
  // Divided by the second scale, which comes last: the sum overflows no earlier than the result.
  const Ex inverse = x.Like(-0.5 * sign) / sum.high * down1 * down2 * down2;
  const Ex half = PowerOfTwo(e.bits1) * x.Like(0.5);
  return Fma(sum.high, half, Fma(sum.low, half, inverse)) * PowerOfTwo(e.bits2);
}

Ex Sinh(Ex x) {
  const Ex t = Abs(x);
  const Ex square = t * t;
  const Ex near = Fma(t * square, Horner(square, kSinh), t);
  return FlipSign(Select(t < x.Like(1), near, HalfDifference(t, 1)), x);
}

// ---- Logarithms.

// log(v) + offset * ln 2 of a positive, finite, normal v.
Sum Log(Sum v, Ex offset) {
  const Ex high = v.high;
  const Ex biased = Shr(WideBits(high) + Word(high, 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu), 52);
  const Ex m = Doubles(WideBits(high) - Shl(biased - biased.Like(1023), 52));
  const Ex e =
      Doubles(biased + Word(high, 0x4338000000000000u)) - high.Like(0x1.8p52 + 1023) + offset;
  const Ex one = high.Like(1);
  const Ex low = v.low * high.Like(0.5) * Doubles(Shl(biased.Like(2047) - biased, 52));
  const Sum above = TwoSum(m - one, low);  // m - 1
  const Ex below = m + one;
  const Ex below_low = (m - (below - one)) + low;
  const Ex inverse = one / below;
  const Ex s = above.high * inverse;
  const Ex s_low = (Fma(-s, below, above.high) + (above.low - s * below_low)) * inverse;
  // log m = 2 atanh s = 2 (s + s^3 (1/3 + s^2 (...)))
  const Ex twice = s + s;
  const Sum z = TwoProduct(s, s);
  const Ex z_low = Fma(twice, s_low, z.low);
  const Ex q = z.high * Horner(z.high, kLog);
  const Ex third = high.Like(0x1.5555555555555p-2);
  const Ex c = third + q;
  const Ex c_low = (q - (c - third)) + high.Like(0x1.5555555555555p-56);
  const Sum cube = TwoProduct(s, z.high);
  const Ex cube_low = cube.low + Fma(s, z_low, s_low * z.high);
  const Sum rest = TwoProduct(cube.high, c);
  const Ex rest_low = rest.low + Fma(cube.high, c_low, cube_low * c);
  const Sum half = FastTwoSum(s, rest.high);
  const Ex half_low = half.low + (s_low + rest_low);
  // ln 2 in 42 bits: its product with an exponent is exact.
  const Sum sum = FastTwoSum(e * high.Like(0x1.62e42fefa3800p-1), half.high + half.high);
  const Ex sum_low = sum.low + Fma(e, high.Like(0x1.ef35793c76730p-45), half_low + half_low);
  return FastTwoSum(sum.high, sum_low);
}

// `value` where x is positive and finite, else log x.
Ex LogSpecials(Ex x, Ex value) {
  const Ex zero = x.Like(0);
  const Ex special =
      Select(x == zero, x.Like(-kInf), Select(x < zero, x.Like(__builtin_nan("")), x));
  return Select((zero < x) && (x < x.Like(kInf)), value, special);
}

// log x of x >= 0, denormal or not.
Sum LogOf(Ex x) {
  const Ex denormal = x < x.Like(0x1p-1022), zero = x.Like(0);
  return Log({Select(denormal, x * x.Like(0x1p54), x), zero}, Select(denormal, x.Like(-54), zero));
}

Ex LogE(Ex x) {
  const Sum log = LogOf(x);
  return LogSpecials(x, log.high + log.low);
}

Ex Log2(Ex x) {
  const Sum log = LogOf(x);
  const Ex factor = x.Like(0x1.71547652b82fep+0);
  const Sum product = TwoProduct(log.high, factor);
  const Ex low = Fma(log.low, factor, Fma(log.high, x.Like(0x1.777d0ffda0d24p-56), product.low));
  return LogSpecials(x, product.high + low);
}

Ex Log1p(Ex x) {
  const Sum sum = TwoSum(x.Like(1), x);
  const Sum log = Log(sum, x.Like(0));
  return Select(Abs(x) < x.Like(0x1p-54), x, LogSpecials(sum.high, log.high + log.low));
}

// max(x, 0) + log(1 + e^-|x|)
Ex Softplus(Ex x) {
  const Ex zero = x.Like(0);
  const Ex e = Value(Exp({-Abs(x), zero}));
  const Sum log = Log(TwoSum(x.Like(1), e), zero);
  const Sum sum = TwoSum(Select(zero < x, x, zero), log.high);
  const Ex value = Select(x < x.Like(-40), e, sum.high + (sum.low + log.low));
  return Finite(x, value, Select(x < zero, zero, x));
}

// log((1 + t) / (1 - t)) / 2
Ex Atanh(Ex x) {
  const Ex t = Abs(x), one = x.Like(1);
  const Sum top = TwoSum(one, t), bottom = TwoSum(one, -t);
  const Ex q = top.high / bottom.high;
  const Ex q_low = (Fma(-q, bottom.high, top.high) + Fma(-q, bottom.low, top.low)) / bottom.high;
  const Sum log = Log({q, q_low}, x.Like(0));
  const Ex value = Select(t < x.Like(0x1p-28), t, x.Like(0.5) * (log.high + log.low));
  const Ex outside = Select(t == one, x.Like(kInf), x.Like(__builtin_nan("")));
  return FlipSign(Select(t < one, value, outside), x);
}

Ex Asinh(Ex x) {
  const Ex t = Abs(x);
  const Ex one = x.Like(1);
  const Ex large = x.Like(0x1p28) <= t;
  const Ex square = t * t;
  const Sum sum = TwoSum(one, t);
  const Sum more = TwoSum(sum.high, square / (one + Sqrt(one + square)));
  const Ex zero = x.Like(0);
  const Sum log = Log({Select(large, t, more.high), Select(large, zero, more.low + sum.low)},
                      Select(large, one, zero));
  const Ex value = Select(t < x.Like(0x1p-28), t, log.high + log.low);
  return FlipSign(Finite(x, value, t), x);
}

Ex Acosh(Ex x) {
  const Ex one = x.Like(1), zero = x.Like(0);
  const Ex large = x.Like(0x1p28) <= x;
  const Ex d = x - one;
  const Sum more = TwoSum(d, Sqrt(d * (d + x.Like(2))));
  const Sum sum = TwoSum(one, more.high);
  const Sum log = Log({Select(large, x, sum.high), Select(large, zero, sum.low + more.low)},
                      Select(large, one, zero));
  return Select(one <= x, Finite(x, log.high + log.low, x), x.Like(__builtin_nan("")));
}

Ex Pow(Ex x, Ex y) {
  const Ex t = Abs(x), zero = x.Like(0);
  const Ex denormal = t < x.Like(0x1p-1022);
  const Sum log =
      Log({Select(denormal, t * x.Like(0x1p54), t), zero}, Select(denormal, x.Like(-54), zero));
  // y * log |x|, the low part only where the high one is no overflow.
  const Ex high = Finite(x, Select(t == zero, x.Like(-kInf), log.high), t);
  const Ex product = y * high;
  const Ex low = Fma(y, log.low, Fma(y, log.high, -product));
  const Ex usable = (zero < t) && (t < x.Like(kInf)) && (Abs(product) < x.Like(2000));
  return PowSpecials(x, y, Value(Exp({product, Select(usable, low, zero)})));
}

// ---- erf and erfc.

// erfc t for t >= 1/2, as P(t) / (1 + 2t) * e^(-t^2).
Ex ErfcTail(Ex t) {
  t = Select(t.Like(30) < t, t.Like(30), t);
  const Ex one = t.Like(1);
  const Ex p = Horner((t - t.Like(4)) / (t + t.Like(4)), kErfc);
  const Ex twice = t + t;
  const Sum bottom = TwoSum(one, twice);
  const Ex inverse = one / bottom.high;
  const Ex ratio = p * inverse;
  const Ex ratio_low = Fma(-ratio, bottom.low, Fma(-ratio, bottom.high, p)) * inverse;
  const Sum square = TwoProduct(-t, t);
  const Exponential e = Exp(square);
  const Sum sum = OnePlus(e);
  const Ex low = Fma(ratio, sum.low, ratio_low * sum.high);
  return Fma(ratio, sum.high, low) * PowerOfTwo(e.bits1) * PowerOfTwo(e.bits2);
}

// erf x for |x| <= 0.84375.
Ex ErfNear(Ex x) { return Fma(x, Horner(x * x, kErf), x); }

Ex Erfc(Ex x) {
  const Ex tail = ErfcTail(Abs(x));
  return Select(Abs(x) <= x.Like(0.5), x.Like(1) - ErfNear(x),
                Select(x < x.Like(0), x.Like(2) - tail, tail));
}

Ex Erf(Ex x) {
  const Ex t = Abs(x);
  return FlipSign(Select(t <= x.Like(0.84375), ErfNear(t), x.Like(1) - ErfcTail(t)), x);
}

// ---- Angles.

// x >= 0 as n * pi / 2 + r: the two low bits of n, and r in [-pi/4, pi/4] up to rounding.
struct Quadrant {
  Ex n;
  Sum r;
};

// Three steps with pi / 2 in 160 bits; x <= 2^30.
Quadrant ReduceSmall(Ex x) {
  const Integer n = RoundToInteger(x * x.Like(0x1.45f306dc9c883p-1));
  const Ex first = Fma(n.value, x.Like(-0x1.921fb54442d18p+0), x);  // exact: both end at 2^-53
  const Sum second = TwoProduct(n.value, x.Like(0x1.1a62633145c07p-54));
  const Sum r = TwoSum(first, -second.high);
  const Ex low = Fma(n.value, x.Like(0x1.f1976b7ed8fbcp-110), r.low - second.low);
  return {n.bits, FastTwoSum(r.high, low)};
}

// High and low halves of a 64 by 64 bit product.
struct Product {
  Ex high, low;
};
Product Multiply(Ex a, Ex b) {
  const Ex mask = Word(a, 0xffffffffu);
  const auto low_half = [&](Ex v) { return Apply(ScalarOp::kAnd, v, mask); };
  const Ex a0 = low_half(a), a1 = Shr(a, 32), b0 = low_half(b), b1 = Shr(b, 32);
  const Ex middle = a1 * b0 + Shr(a0 * b0, 32);
  const Ex carry = low_half(middle) + a0 * b1;
  return {a1 * b1 + Shr(middle, 32) + Shr(carry, 32), a * b};
}

// `bits` < 2^52 as a number.
Ex ToDouble(Ex bits) {
  return Doubles(Apply(ScalarOp::kOr, bits, Word(bits, 0x4330000000000000u))) -
         LiteralBits(*bits.expr, DType::kF64, 0x4330000000000000u);
}

// Payne and Hanek: x = m * 2^e with a 53-bit integer m, so only the bits of 2^e / (2 pi) after the
// point count: 192 of them, chosen by a barrel shifter. x >= 2^29.
Quadrant ReduceLarge(Ex x) {
  const Ex bits = WideBits(x);
  const auto And = [](Ex a, Ex b) { return Apply(ScalarOp::kAnd, a, b); };
  const auto Or = [](Ex a, Ex b) { return Apply(ScalarOp::kOr, a, b); };
  const Ex m = Or(And(bits, Word(x, 0xfffffffffffffu)), Word(x, 0x10000000000000u));
  const Ex shift = Shr(bits, 52) - Word(x, 1075 - 32);  // e + 32: the table starts with 32 zeros
  Ex words[std::size(kTwoOverPi)];
  for (size_t i = 0; i < std::size(kTwoOverPi); ++i) words[i] = Word(x, kTwoOverPi[i]);
  size_t count = std::size(kTwoOverPi);
  for (const size_t step : {8, 4, 2, 1}) {
    const Ex far = And(shift, Word(x, step * 64)) != Word(x, 0);
    count -= step;
    for (size_t i = 0; i < count; ++i) words[i] = Select(far, words[i + step], words[i]);
  }
  const Ex left = And(shift, Word(x, 63));
  const Ex right = Word(x, 64) - left;  // a shift by 64 gives 0
  Ex parts[3];
  for (size_t i = 0; i < 3; ++i) {
    parts[i] =
        Or(Apply(ScalarOp::kShl, words[i], left), Apply(ScalarOp::kShr, words[i + 1], right));
  }
  // The 128 bits after the point of m * parts.
  const Product second = Multiply(m, parts[1]);
  const Ex third = Multiply(m, parts[2]).high;
  Ex low = second.low + third;
  Ex high = m * parts[0] + second.high + Cast(low < third, DType::kU64);
  const Ex n = Shr(high + Word(x, uint64_t{1} << 61), 62);
  high = high - Shl(n, 62);
  const Ex negative = Word(x, uint64_t{1} << 61) < high;
  const Ex flip = Select(negative, Word(x, ~uint64_t{0}), Word(x, 0));
  high = Apply(ScalarOp::kXor, high, flip);
  low = Apply(ScalarOp::kXor, low, flip);
  // 61 + 64 bits, in quadrants * 2^62, as doubles.
  Sum sum = FastTwoSum(ToDouble(Shr(high, 30)),
                       ToDouble(And(high, Word(x, 0x3fffffffu))) * x.Like(0x1p-30));
  Sum next = FastTwoSum(sum.high, Fma(ToDouble(Shr(low, 32)), x.Like(0x1p-62), sum.low));
  const Ex rest = Fma(ToDouble(And(low, Word(x, 0xffffffffu))), x.Like(0x1p-94), next.low);
  const Ex quarter = next.high * x.Like(0x1p-32);
  const Ex quarter_low = rest * x.Like(0x1p-32);
  const Sum r = TwoProduct(quarter, x.Like(0x1.921fb54442d18p+0));
  const Ex r_low = Fma(quarter_low, x.Like(0x1.921fb54442d18p+0),
                       Fma(quarter, x.Like(0x1.1a62633145c07p-54), r.low));
  return {n, {Select(negative, -r.high, r.high), Select(negative, -r_low, r_low)}};
}

Ex SinOf(Sum r) {
  const Ex z = r.high * r.high;
  const Ex low = Fma(z * r.low, z.Like(-0.5), r.low);
  return r.high + Fma(z * r.high, Horner(z, kSin), low);
}

Ex CosOf(Sum r) {
  const Ex z = r.high * r.high;
  const Ex half = z * z.Like(0.5);
  const Ex one = z.Like(1);
  const Ex w = one - half;
  return w + (((one - w) - half) + Fma(z * z, Horner(z, kCos), -(r.high * r.low)));
}

Ex SinCosTan(ScalarOp op, Ex x) {
  const Ex t = Abs(x);
  const Ex is_small = t < x.Like(0x1p30);
  const Quadrant small = ReduceSmall(t), large = ReduceLarge(t);
  const Sum r = {Select(is_small, small.r.high, large.r.high),
                 Select(is_small, small.r.low, large.r.low)};
  const Ex n = Select(is_small, small.n, large.n);
  const auto bit = [](Ex word, uint64_t mask) {
    return Apply(ScalarOp::kAnd, word, Word(word, mask)) != Word(word, 0);
  };
  const Ex sin = SinOf(r), cos = CosOf(r);
  const Ex odd = bit(n, 1);
  const Ex nan = x.Like(__builtin_nan(""));
  if (op == ScalarOp::kTan) {
    return Finite(x, FlipSign(Select(odd, -cos, sin) / Select(odd, sin, cos), x), nan);
  }
  if (op == ScalarOp::kSin) {
    const Ex value = Select(odd, cos, sin);
    return Finite(x, FlipSign(Select(bit(n, 2), -value, value), x), nan);
  }
  const Ex value = Select(odd, sin, cos);
  return Finite(x, Select(bit(n + n.Like(1), 2), -value, value), nan);
}

// atan of x, |x| and -1/|x| being as good, and (|x| - 1) / (|x| + 1) an eighth of a period away.
Ex Atan(Ex x) {
  const Ex t = Abs(x);
  const Ex one = x.Like(1), zero = x.Like(0);
  const Ex low = t < x.Like(0.4142135623730951), high = x.Like(2.414213562373095) < t;
  const Ex top = Select(high, -one, Select(low, t, t - one));
  const Ex bottom = Select(high, t, Select(low, one, t + one));
  const Ex u = top / bottom;
  const Ex u_low = Select(high || low, zero, Fma(-u, bottom, top) / bottom);
  const Ex square = u * u;
  const Ex angle =
      Select(high, x.Like(0x1.921fb54442d18p+0), Select(low, zero, x.Like(0x1.921fb54442d18p-1)));
  const Ex angle_low =
      Select(high, x.Like(0x1.1a62633145c07p-54), Select(low, zero, x.Like(0x1.1a62633145c07p-55)));
  const Sum sum = FastTwoSum(angle, u);
  const Ex value =
      sum.high + (sum.low + (angle_low + (u_low + u * square * Horner(square, kAtan))));
  return FlipSign(value, x);
}

// asin t = pi / 2 - 2 asin sqrt((1 - t) / 2) above 1/2. `s` + `s_low` is that root, or t itself;
// `cube` what asin s is more than s.
struct ArcSine {
  Ex far, s, s_low, cube;
};
ArcSine ReduceArcSine(Ex t) {
  const Ex half = t.Like(0.5);
  const Ex far = half < t;
  const Ex square = Select(far, (t.Like(1) - t) * half, t * t);
  const Ex root = Sqrt(square);
  const Ex s = Select(far, root, t);
  const Ex lost = Fma(-root, root, square) / (root + root);
  const Ex s_low = Select(far && (t.Like(0) < root), lost, t.Like(0));
  return {far, s, s_low, s * square * Horner(square, kAsin)};
}

constexpr double kHalfPi = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;

Ex Asin(Ex x) {
  const ArcSine a = ReduceArcSine(Abs(x));
  const Ex two = x.Like(2);
  const Sum sum = FastTwoSum(x.Like(kHalfPi), -(a.s * two));
  const Ex far = sum.high + (sum.low + Fma(a.cube + a.s_low, -two, x.Like(kHalfPiLow)));
  return FlipSign(Select(a.far, far, a.s + a.cube), x);
}

// pi / 2 - asin x near 0, else 2 asin s for x > 0 and pi - 2 asin s for x < 0.
Ex Acos(Ex x) {
  const ArcSine a = ReduceArcSine(Abs(x));
  const Ex minus = x < x.Like(0);
  const Ex low = a.cube + a.s_low;
  const Ex two = x.Like(2);
  const auto from = [&](double scale, Ex s, Ex s_low) {
    const Sum sum = FastTwoSum(x.Like(kHalfPi * scale), s);
    return sum.high + (sum.low + (x.Like(kHalfPiLow * scale) + s_low));
  };
  const Ex near = from(1, Select(minus, a.s, -a.s), Select(minus, low, -low));
  const Ex far = Select(minus, from(2, -(a.s * two), -(low * two)), (a.s + low) * two);
  return Select(a.far, far, near);
}

// ---- Cube root.

// Of m * 2^j in [0.35, 2.83], from a polynomial in m: Halley's step, then Newton's with the exact
// remainder.
Ex Cbrt(Ex x) {
  const Ex t = Abs(x), zero = x.Like(0), one = x.Like(1);
  const Ex denormal = t < x.Like(0x1p-1022);
  const Ex v = Select(denormal, t * x.Like(0x1p54), t);
  const Ex biased = Shr(WideBits(v) + Word(x, 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu), 52);
  const Ex m = Doubles(WideBits(v) - Shl(biased - biased.Like(1023), 52));
  const Ex e = Doubles(biased + Word(x, 0x4338000000000000u)) - x.Like(0x1.8p52 + 1023);
  const Integer k = RoundToInteger(e * x.Like(1.0 / 3));
  const Ex j = Fma(k.value, x.Like(-3), e);  // -1, 0 or 1
  const auto by_j = [&](double below, double above) {
    return Select(j < zero, x.Like(below), Select(zero < j, x.Like(above), one));
  };
  const Ex y = m * by_j(0.5, 2);
  const Ex guess = Horner(m, kCbrt) * by_j(0x1.965fea53d6e3dp-1, 0x1.428a2f98d728bp+0);
  const Ex cube = guess * guess * guess;
  const Ex root = guess * ((cube + (y + y)) / (cube + cube + y));
  const Sum square = TwoProduct(root, root);
  const Sum product = TwoProduct(square.high, root);
  const Ex left = (y - product.high) - Fma(square.low, root, product.low);
  const Ex value = root + left / (square.high * x.Like(3));
  const Ex shift = k.bits - Select(denormal, Word(x, 18), Word(x, 0));
  return FlipSign(Finite(x, Select(t == zero, t, value * PowerOfTwo(shift)), t), x);
}

}  // namespace

std::optional<Ex> ExpandDouble(ScalarOp op, Ex x, Ex y) {
  switch (op) {
    case ScalarOp::kExp:
      return Value(Exp({x, x.Like(0)}));
    case ScalarOp::kLog:
      return LogE(x);
    case ScalarOp::kTanh:
      return Tanh(x);
    case ScalarOp::kSigmoid:
      return Sigmoid(x);
    case ScalarOp::kRsqrt:
      return x.Like(1) / Sqrt(x);
    case ScalarOp::kExp2:
      return Exp2(x);
    case ScalarOp::kExpm1:
      return Expm1(x);
    case ScalarOp::kLog2:
      return Log2(x);
    case ScalarOp::kLog1p:
      return Log1p(x);
    case ScalarOp::kSoftplus:
      return Softplus(x);
    case ScalarOp::kAtanh:
      return Atanh(x);
    case ScalarOp::kSinh:
      return Sinh(x);
    case ScalarOp::kCosh:
      return HalfDifference(Abs(x), -1);
    case ScalarOp::kAsinh:
      return Asinh(x);
    case ScalarOp::kAcosh:
      return Acosh(x);
    case ScalarOp::kPow:
      return Pow(x, y);
    case ScalarOp::kErf:
      return Erf(x);
    case ScalarOp::kErfc:
      return Erfc(x);
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      return SinCosTan(op, x);
    case ScalarOp::kAtan:
      return Atan(x);
    case ScalarOp::kAsin:
      return Asin(x);
    case ScalarOp::kAcos:
      return Acos(x);
    case ScalarOp::kCbrt:
      return Cbrt(x);
    default:
      return std::nullopt;
  }
}

}  // namespace kiln::math_internal
