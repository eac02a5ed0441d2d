// SPDX-License-Identifier: Apache-2.0
// Rounding to the formats of PTX in integers: f16, bf16, f32 and f64, in all four directions.
//
// A finite number is (negative, significand, exponent): +-significand * 2^exponent. One that is not
// exact keeps its lowest bit set ("sticky"), which rounds rightly as long as two bits lie below the
// format's last one.
//
//   PackFloat(kF16, false, 1, 16, Rounding::kNearest) == 0x7c00    // 65536 overflows to infinity
//   PackFloat(kF16, false, 1, 16, Rounding::kZero) == 0x7bff       // or to the largest number
//
// Two operands of 16 bits are added, multiplied and fused exactly enough in double when the double
// is rounded to odd (SumToOdd), then rounded once.
#ifndef KILN_PTX_EMULATOR_FLOAT_FORMAT_H_
#define KILN_PTX_EMULATOR_FLOAT_FORMAT_H_

#include <cstdint>

namespace kiln::ptx {

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

struct FloatFormat {
  int exponent_bits, fraction_bits;
};
inline constexpr FloatFormat kF16 = {5, 10}, kBf16 = {8, 7}, kF32 = {8, 23}, kF64 = {11, 52};

inline constexpr uint16_t kNan16 = 0x7fff;
inline constexpr uint32_t kNan32 = 0x7fffffff;
inline constexpr uint64_t kNan64 = 0x7ff8000000000000;

// Bits of a register of 16 bits.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

uint64_t PackFloat(FloatFormat to, bool negative, uint64_t significand, int exponent,
                   Rounding rounding);
// A NaN is the canonical one of the format.
uint64_t PackDouble(FloatFormat to, double value, Rounding rounding);

double ToDouble(Half value);
double ToDouble(Bfloat value);
inline double ToDouble(float value) { return value; }
inline double ToDouble(double value) { return value; }

// a + b, and where that is not exact, the neighbour of the sum whose last bit is set.
double SumToOdd(double a, double b);

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_FLOAT_FORMAT_H_
