// SPDX-License-Identifier: Apache-2.0
#include "trace/number.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/tensors.h"

namespace kiln::tracing {
namespace {

uint64_t FloatBits(double value, DType type) {
  switch (type) {
    case DType::kF64:
      return std::bit_cast<uint64_t>(value);
    case DType::kF16:
      return FloatToHalf(static_cast<float>(RoundTo(value, type)));
    case DType::kBF16:
      return FloatToBFloat(static_cast<float>(RoundTo(value, type)));
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

// The whole number that a double is, as an int64_t, or, from 2^63 on, as the bits of an uint64_t;
// nothing: a fraction, or neither has it.
std::optional<uint64_t> WholeOf(double value, bool* large) {
  *large = value >= 0x1p63;
  if (!(value >= -0x1p63 && value < 0x1p64) || value != std::trunc(value)) return std::nullopt;
  return *large ? static_cast<uint64_t>(value) : static_cast<uint64_t>(static_cast<int64_t>(value));
}

bool Fits(int64_t value, DType type) {
  const int bits = static_cast<int>(8 * SizeOf(type));
  if (type == DType::kBool) return value == 0 || value == 1;
  if (IsSigned(type)) return bits == 64 || (value >> (bits - 1)) == (value < 0 ? -1 : 0);
  return value >= 0 && (bits == 64 || (value >> bits) == 0);
}

}  // namespace

DType OperandAccess::OwnType(const Operand& o) {
  return o.kind_ == Operand::Kind::kFloat   ? DType::kF32
         : o.kind_ == Operand::Kind::kInt   ? DType::kI64
         : o.kind_ == Operand::Kind::kLarge ? DType::kU64
                                            : DType::kBool;
}

double OperandAccess::AsDouble(const Operand& o) {
  if (o.kind_ == Operand::Kind::kFloat) return o.number_;
  return o.kind_ == Operand::Kind::kLarge ? static_cast<double>(static_cast<uint64_t>(o.whole_))
                                          : static_cast<double>(o.whole_);
}

std::string OperandAccess::ToString(const Operand& o) {
  if (o.kind_ == Operand::Kind::kFloat) return kiln::tracing::ToString(o.number_);
  return o.kind_ == Operand::Kind::kLarge ? absl::StrCat(static_cast<uint64_t>(o.whole_))
                                          : absl::StrCat(o.whole_);
}

bool OperandAccess::IsSmall(const Operand& o) {
  const double value = AsDouble(o);
  return value >= 1 && value <= 4 && value == std::floor(value);
}

std::optional<uint64_t> OperandAccess::Bits(const Operand& o, DType type) {
  if (IsFloat(type)) return FloatBits(AsDouble(o), type);
  bool large = o.kind_ == Operand::Kind::kLarge;
  std::optional<uint64_t> bits = static_cast<uint64_t>(o.whole_);
  if (o.kind_ == Operand::Kind::kFloat) bits = WholeOf(o.number_, &large);
  if (!bits || (large ? type != DType::kU64 : !Fits(static_cast<int64_t>(*bits), type)))
    return std::nullopt;
  return SizeOf(type) == 8 ? *bits : *bits & ((uint64_t{1} << (8 * SizeOf(type))) - 1);
}

absl::StatusOr<uint64_t> OperandAccess::BitsBeside(const Operand& o, DType type) {
  if (const std::optional<uint64_t> bits = Bits(o, type)) return *bits;
  return Invalid("the number ", ToString(o), " beside an array of ", Name(type),
                 ": it has no such value; cast the array to ",
                 o.kind_ == Operand::Kind::kFloat ? "a float type" : "a larger type");
}

std::string ToString(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string NumberText(uint64_t bits, DType type) {
  switch (type) {
    case DType::kF64:
      return ToString(std::bit_cast<double>(bits));
    case DType::kF32: {
      char text[32];
      const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
      return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
    }
    case DType::kF16:
      return ToString(HalfToFloat(static_cast<uint16_t>(bits)));
    case DType::kBF16:
      return ToString(BFloatToFloat(static_cast<uint16_t>(bits)));
    default:
      break;
  }
  if (!IsSigned(type)) return absl::StrCat(bits);
  const auto unused = static_cast<int>(64 - 8 * SizeOf(type));
  return absl::StrCat(static_cast<int64_t>(bits << unused) >> unused);
}

}  // namespace kiln::tracing
