// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <bit>
#include <cmath>
#include <iterator>

namespace kiln {
namespace {

struct Row {
  DType type;
  const char* name;
  size_t size;
};

constexpr Row kRows[kNumDTypes] = {
    {DType::kF32, "f32", 4},   {DType::kF64, "f64", 8}, {DType::kF16, "f16", 2},
    {DType::kBF16, "bf16", 2}, {DType::kI8, "i8", 1},   {DType::kI16, "i16", 2},
    {DType::kI32, "i32", 4},   {DType::kI64, "i64", 8}, {DType::kU8, "u8", 1},
    {DType::kU16, "u16", 2},   {DType::kU32, "u32", 4}, {DType::kU64, "u64", 8},
    {DType::kBool, "bool", 1},
};

// Of a number that a host has cast and that is no type: what compares types refuses it by name.
constexpr Row kNone = {DType::kF32, "no type", 0};

const Row& RowOf(DType type) {
  const auto k = static_cast<size_t>(type);
  return k < std::size(kRows) ? kRows[k] : kNone;
}

}  // namespace

absl::string_view Name(DType type) { return RowOf(type).name; }

size_t SizeOf(DType type) { return RowOf(type).size; }

std::optional<DType> ParseDType(absl::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

bool IsFloat(DType type) { return type <= DType::kBF16; }
bool IsSigned(DType type) { return type >= DType::kI8 && type <= DType::kI64; }
bool IsInt(DType type) { return type >= DType::kI8 && type <= DType::kU64; }

DType ComputeType(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity, or is
  if (magnitude < 0x38800000u) {                        // subnormal: the sum rounds at bit 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0.5f));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float BFloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t FloatToBFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);  // stays a NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kiln
