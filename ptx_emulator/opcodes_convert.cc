// SPDX-License-Identifier: Apache-2.0
// cvt: between integers, between floats, and across, with all roundings and saturations.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ptx_emulator/row.h"

namespace kiln::ptx {
namespace {

template <typename T>
struct TypeName;
#define KILN_PTX_TYPE(type, text)         \
  template <>                             \
  struct TypeName<type> {                 \
    static constexpr char kText[] = text; \
  }
KILN_PTX_TYPE(int8_t, ".s8");
KILN_PTX_TYPE(uint8_t, ".u8");
KILN_PTX_TYPE(int16_t, ".s16");
KILN_PTX_TYPE(uint16_t, ".u16");
KILN_PTX_TYPE(int32_t, ".s32");
KILN_PTX_TYPE(uint32_t, ".u32");
KILN_PTX_TYPE(int64_t, ".s64");
KILN_PTX_TYPE(uint64_t, ".u64");
KILN_PTX_TYPE(Half, ".f16");
KILN_PTX_TYPE(Bfloat, ".bf16");
KILN_PTX_TYPE(float, ".f32");
KILN_PTX_TYPE(double, ".f64");
#undef KILN_PTX_TYPE

template <typename T>
constexpr FloatFormat FormatOf() {
  if constexpr (std::is_same_v<T, Half>) return kF16;
  if constexpr (std::is_same_v<T, Bfloat>) return kBf16;
  if constexpr (std::is_same_v<T, float>) return kF32;
  return kF64;
}

template <typename T>
T FromBits(uint64_t bits) {
  return FromLane<T>(bits);
}

double Integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest:
      return std::nearbyint(value);
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
  }
  return value;
}

// Out of range: the nearest number of the type. NaN: 0, or 1 << (bits - 1) where 64 bits take part.
template <typename I, typename F, Rounding rounding>
I FloatToInteger(F from) {
  constexpr int kBits = 8 * sizeof(I);
  const double value = ToDouble(from);
  if (value != value) {
    constexpr bool kWide = kBits == 64 || sizeof(F) == 8;
    return kWide ? static_cast<I>(uint64_t{1} << (kBits - 1)) : I{0};
  }
  const double whole = Integral(value, rounding);
  const double bound = std::ldexp(1.0, std::is_signed_v<I> ? kBits - 1 : kBits);
  if (whole >= bound) return std::numeric_limits<I>::max();
  if (whole < (std::is_signed_v<I> ? -bound : 0.0)) return std::numeric_limits<I>::min();
  return static_cast<I>(whole);
}

template <typename F, typename I, Rounding rounding>
F IntegerToFloat(I from) {
  if constexpr (rounding == Rounding::kNearest && sizeof(F) >= 4) {
    return static_cast<F>(from);
  } else {
    const bool negative = from < 0;
    const auto bits = static_cast<uint64_t>(from);
    const uint64_t magnitude = negative ? uint64_t{0} - bits : bits;
    return FromBits<F>(PackFloat(FormatOf<F>(), negative, magnitude, 0, rounding));
  }
}

template <typename To, typename From, Rounding rounding>
To FloatToFloat(From from) {
  if constexpr (sizeof(To) > sizeof(From)) {
    return static_cast<To>(ToDouble(from));
  } else if constexpr (rounding == Rounding::kNearest && sizeof(To) == 4) {
    return static_cast<To>(from);
  } else {
    return FromBits<To>(PackDouble(FormatOf<To>(), ToDouble(from), rounding));
  }
}

template <typename T, Rounding rounding>
T IntegralFloat(T from) {
  return FromBits<T>(
      PackDouble(FormatOf<T>(), Integral(ToDouble(from), rounding), Rounding::kNearest));
}

template <typename T>
T Unit(T from) {  // .sat
  const double value = ToDouble(from);
  return FromBits<T>(
      PackDouble(FormatOf<T>(), value > 0 ? std::min(value, 1.0) : 0.0, Rounding::kNearest));
}

template <typename To, typename From>
To Clamped(From from) {
  using Wide = __int128;
  return static_cast<To>(
      std::clamp<Wide>(from, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
}

template <typename To, typename From>
std::string Suffix() {
  return std::string(TypeName<To>::kText) + TypeName<From>::kText;
}

template <typename To, typename From>
void AddIntegers(OpcodeTable& table) {
  Add(table, "cvt" + Suffix<To, From>(), [](From a) { return static_cast<To>(a); });
  Add(table, "cvt.sat" + Suffix<To, From>(), [](From a) { return Clamped<To>(a); });
}

template <typename I, typename F, Rounding rounding>
void AddAcross(OpcodeTable& table, const std::string& round) {
  for (const char* sat : {"i", "i.sat"}) {
    Add(table, "cvt" + round + sat + Suffix<I, F>(),
        [](F a) { return FloatToInteger<I, F, rounding>(a); });
  }
  Add(table, "cvt" + round + Suffix<F, I>(), [](I a) { return IntegerToFloat<F, I, rounding>(a); });
}

template <typename F, Rounding rounding>
void AddIntegral(OpcodeTable& table, const std::string& round) {
  Add(table, "cvt" + round + "i" + Suffix<F, F>(),
      [](F a) { return IntegralFloat<F, rounding>(a); });
  Add(table, "cvt" + round + "i.sat" + Suffix<F, F>(),
      [](F a) { return Unit(IntegralFloat<F, rounding>(a)); });
}

// To is as narrow as From or narrower.
template <typename To, typename From, Rounding rounding>
void AddNarrowing(OpcodeTable& table, const std::string& round) {
  Add(table, "cvt" + round + Suffix<To, From>(),
      [](From a) { return FloatToFloat<To, From, rounding>(a); });
  Add(table, "cvt" + round + ".sat" + Suffix<To, From>(),
      [](From a) { return Unit(FloatToFloat<To, From, rounding>(a)); });
}

template <typename To, typename From>
void AddWidening(OpcodeTable& table) {
  AddNarrowing<To, From, Rounding::kNearest>(table, "");
}

template <typename To, Rounding rounding>
void AddPair(OpcodeTable& table, const std::string& round) {  // a is the upper half
  Add(table, "cvt" + round + TypeName<To>::kText + "x2.f32", [](float a, float b) {
    const uint32_t high = FloatToFloat<To, float, rounding>(a).bits;
    return high << 16 | FloatToFloat<To, float, rounding>(b).bits;
  });
}

template <Rounding rounding>
void AddRounding(OpcodeTable& table, const std::string& round) {
  const auto of_float = [&]<typename F>(F) {
    [&]<typename... I>(const I&...) { (AddAcross<I, F, rounding>(table, round), ...); }(
        int8_t{}, uint8_t{}, int16_t{}, uint16_t{}, int32_t{}, uint32_t{}, int64_t{}, uint64_t{});
    AddIntegral<F, rounding>(table, round);
  };
  of_float(Half{});
  of_float(Bfloat{});
  of_float(float{});
  of_float(double{});
  AddNarrowing<float, double, rounding>(table, round);
  AddNarrowing<Half, double, rounding>(table, round);
  AddNarrowing<Bfloat, double, rounding>(table, round);
  AddNarrowing<Half, float, rounding>(table, round);
  AddNarrowing<Bfloat, float, rounding>(table, round);
  AddNarrowing<Half, Bfloat, rounding>(table, round);
  AddNarrowing<Bfloat, Half, rounding>(table, round);
  AddPair<Half, rounding>(table, round);
  AddPair<Bfloat, rounding>(table, round);
}

template <typename From>
void AddIntegersFrom(OpcodeTable& table) {
  [&]<typename... To>(const To&...) { (AddIntegers<To, From>(table), ...); }(
      int8_t{}, uint8_t{}, int16_t{}, uint16_t{}, int32_t{}, uint32_t{}, int64_t{}, uint64_t{});
}

}  // namespace

void AddConversionOpcodes(OpcodeTable& table) {
  [&]<typename... From>(const From&...) { (AddIntegersFrom<From>(table), ...); }(
      int8_t{}, uint8_t{}, int16_t{}, uint16_t{}, int32_t{}, uint32_t{}, int64_t{}, uint64_t{});
  AddRounding<Rounding::kNearest>(table, ".rn");
  AddRounding<Rounding::kZero>(table, ".rz");
  AddRounding<Rounding::kDown>(table, ".rm");
  AddRounding<Rounding::kUp>(table, ".rp");
  AddWidening<float, Half>(table);
  AddWidening<float, Bfloat>(table);
  AddWidening<double, Half>(table);
  AddWidening<double, Bfloat>(table);
  AddWidening<double, float>(table);
  AddWidening<float, float>(table);
  AddWidening<double, double>(table);
}

}  // namespace kiln::ptx
