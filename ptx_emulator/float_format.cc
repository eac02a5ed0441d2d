// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/float_format.h"

#include <bit>
#include <cmath>

namespace kiln::ptx {
namespace {

bool RoundsUp(Rounding rounding, bool negative, bool odd, bool half, bool rest) {
  switch (rounding) {
    case Rounding::kNearest:
      return half && (rest || odd);
    case Rounding::kZero:
      return false;
    case Rounding::kDown:
      return negative && (half || rest);
    case Rounding::kUp:
      return !negative && (half || rest);
  }
  return false;
}

}  // namespace

uint64_t PackFloat(FloatFormat to, bool negative, uint64_t significand, int exponent,
                   Rounding rounding) {
  const uint64_t sign = static_cast<uint64_t>(negative) << (to.exponent_bits + to.fraction_bits);
  if (significand == 0) return sign;
  const int bias = (1 << (to.exponent_bits - 1)) - 1;
  const int zeros = std::countl_zero(significand);
  significand <<= zeros;                  // value = significand / 2^63 * 2^top
  const int top = exponent - zeros + 63;  // the exponent of the leading bit
  int biased = top + bias;                // below 1: subnormal
  int dropped = 63 - to.fraction_bits + (biased < 1 ? 1 - biased : 0);
  if (biased < 1) biased = 1;
  if (dropped > 65) dropped = 65;
  const uint64_t kept = dropped > 63 ? 0 : significand >> dropped;
  const bool half = dropped < 65 && (significand >> (dropped - 1) & 1) != 0;
  const bool rest = dropped > 64 || (significand & ((uint64_t{1} << (dropped - 1)) - 1)) != 0;
  // A carry out of the fraction goes on into the exponent; a kept leading bit adds 1 to it.
  uint64_t bits = (static_cast<uint64_t>(biased - 1) << to.fraction_bits) + kept +
                  (RoundsUp(rounding, negative, (kept & 1) != 0, half, rest) ? 1 : 0);
  const uint64_t infinity = ((uint64_t{1} << to.exponent_bits) - 1) << to.fraction_bits;
  if (bits >= infinity) {
    const bool to_infinity =
        rounding == Rounding::kNearest || rounding == (negative ? Rounding::kDown : Rounding::kUp);
    bits = to_infinity ? infinity : infinity - 1;
  }
  return sign | bits;
}

uint64_t PackDouble(FloatFormat to, double value, Rounding rounding) {
  const int width = 1 + to.exponent_bits + to.fraction_bits;
  if (value != value) return width == 16 ? kNan16 : width == 32 ? kNan32 : kNan64;
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & 0xfffffffffffff;
  if (exponent == 0x7ff) {
    const uint64_t infinity = ((uint64_t{1} << to.exponent_bits) - 1) << to.fraction_bits;
    return infinity | static_cast<uint64_t>(negative) << (width - 1);
  }
  if (exponent == 0) return PackFloat(to, negative, fraction, -1074, rounding);
  return PackFloat(to, negative, fraction | uint64_t{1} << 52, exponent - 1075, rounding);
}

double ToDouble(Half value) {
  const int exponent = value.bits >> 10 & 31;
  const int fraction = value.bits & 1023;
  double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction | 1024, exponent - 25);
  if (exponent == 31) magnitude = fraction != 0 ? NAN : INFINITY;
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double ToDouble(Bfloat value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

double SumToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double rest = sum - a;
  const double error = (a - (sum - rest)) + (b - rest);  // sum + error is a + b exactly
  const auto bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  return std::bit_cast<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

}  // namespace kiln::ptx
