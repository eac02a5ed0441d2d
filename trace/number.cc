// SPDX-License-Identifier: Apache-2.0
#include "trace/number.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/status.h"
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

bool Fits(int64_t value, DType type) {
  const int bits = static_cast<int>(8 * SizeOf(type));
  if (type == DType::kBool) return value == 0 || value == 1;
  if (IsSigned(type)) return bits == 64 || (value >> (bits - 1)) == (value < 0 ? -1 : 0);
  return value >= 0 && (bits == 64 || (value >> bits) == 0);
}

}  // namespace

DType OperandAccess::OwnType(const Operand& o) {
  return o.kind_ == Operand::Kind::kFloat ? DType::kF32
         : o.kind_ == Operand::Kind::kInt ? DType::kI64
                                          : DType::kBool;
}

bool OperandAccess::IsSmall(const Operand& o) {
  const double value = o.kind_ == Operand::Kind::kFloat ? o.number_ : static_cast<double>(o.whole_);
  return value >= 1 && value <= 4 && value == std::floor(value);
}

absl::StatusOr<uint64_t> OperandAccess::Bits(const Operand& o, DType type) {
  const bool is_float = o.kind_ == Operand::Kind::kFloat;
  if (IsFloat(type)) return FloatBits(is_float ? o.number_ : static_cast<double>(o.whole_), type);
  int64_t whole = o.whole_;
  if (is_float) {
    // 2^63 is the least double that int64 has not.
    if (!(o.number_ >= -0x1p63 && o.number_ < 0x1p63) || o.number_ != std::trunc(o.number_)) {
      return Invalid("the number ", o.number_, " beside an array of ", Name(type),
                     ": it has no such value; cast the array to a float type");
    }
    whole = static_cast<int64_t>(o.number_);
  }
  if (!Fits(whole, type)) {
    return Invalid("the number ", whole, " beside an array of ", Name(type),
                   ": it has no such value; cast the array to a larger type");
  }
  const auto bits = static_cast<uint64_t>(whole);
  return SizeOf(type) == 8 ? bits : bits & ((uint64_t{1} << (8 * SizeOf(type))) - 1);
}

}  // namespace kiln::tracing
