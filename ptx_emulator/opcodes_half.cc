// SPDX-License-Identifier: Apache-2.0
// Arithmetic of f16 and bf16, and of pairs of them in 32 bits. All of it rounds to nearest.
#include <cmath>

#include "ptx_emulator/row.h"

namespace kiln::ptx {
namespace {

template <typename T>
T Packed(double value) {
  constexpr FloatFormat kFormat = std::is_same_v<T, Half> ? kF16 : kBf16;
  return {static_cast<uint16_t>(PackDouble(kFormat, value, Rounding::kNearest))};
}

// The product of two is exact in double.
struct HalfAdd {
  static double Of(double a, double b, double) { return SumToOdd(a, b); }
};
struct HalfSub {
  static double Of(double a, double b, double) { return SumToOdd(a, -b); }
};
struct HalfMul {
  static double Of(double a, double b, double) { return a * b; }
};
struct HalfFma {
  static double Of(double a, double b, double c) { return SumToOdd(a * b, c); }
};
template <bool kNan>
struct HalfMin {
  static double Of(double a, double b, double) {
    if (a != a || b != b) return kNan ? NAN : a != a ? b : a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
template <bool kNan>
struct HalfMax {
  static double Of(double a, double b, double) {
    if (a != a || b != b) return kNan ? NAN : a != a ? b : a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};

template <typename Op, typename T>
T OnHalf(T a, T b, T c) {
  return Packed<T>(Op::Of(ToDouble(a), ToDouble(b), ToDouble(c)));
}

template <typename Op, typename T>
uint32_t OnPair(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t out = 0;
  for (int i = 0; i < 32; i += 16) {
    const auto part = [i](uint32_t v) { return T{static_cast<uint16_t>(v >> i)}; };
    out |= uint32_t{OnHalf<Op>(part(a), part(b), part(c)).bits} << i;
  }
  return out;
}

template <typename Op, typename T>
void AddOfTwo(OpcodeTable& table, const std::string& op, const std::string& type) {
  Add(table, op + type, [](T a, T b) { return OnHalf<Op>(a, b, T{0}); });
  Add(table, op + type + "x2", [](uint32_t a, uint32_t b) { return OnPair<Op, T>(a, b, 0); });
}

template <typename T>
void AddHalves(OpcodeTable& table, const std::string& type) {
  for (const char* rounding : {".", ".rn."}) {
    AddOfTwo<HalfAdd, T>(table, std::string("add") + rounding, type);
    AddOfTwo<HalfSub, T>(table, std::string("sub") + rounding, type);
    AddOfTwo<HalfMul, T>(table, std::string("mul") + rounding, type);
  }
  AddOfTwo<HalfMin<false>, T>(table, "min.", type);
  AddOfTwo<HalfMax<false>, T>(table, "max.", type);
  AddOfTwo<HalfMin<true>, T>(table, "min.NaN.", type);
  AddOfTwo<HalfMax<true>, T>(table, "max.NaN.", type);
  Add(table, "fma.rn." + type, [](T a, T b, T c) { return OnHalf<HalfFma>(a, b, c); });
  Add(table, "fma.rn." + type + "x2",
      [](uint32_t a, uint32_t b, uint32_t c) { return OnPair<HalfFma, T>(a, b, c); });
  Add(table, "neg." + type, [](uint16_t a) { return static_cast<uint16_t>(a ^ 0x8000); });
  Add(table, "abs." + type, [](uint16_t a) { return static_cast<uint16_t>(a & 0x7fff); });
  Add(table, "neg." + type + "x2", [](uint32_t a) { return a ^ 0x80008000; });
  Add(table, "abs." + type + "x2", [](uint32_t a) { return a & 0x7fff7fff; });
}

}  // namespace

void AddHalfOpcodes(OpcodeTable& table) {
  AddHalves<Half>(table, "f16");
  AddHalves<Bfloat>(table, "bf16");
}

}  // namespace kiln::ptx
