// SPDX-License-Identifier: Apache-2.0
#include "fusion/literal.h"

#include <cstring>

#include "kernel/scalar_expr.h"

namespace kiln {
namespace {

template <typename T>
T Load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

template <typename T>
uint64_t SignExtended(const void* data) {
  return static_cast<uint64_t>(static_cast<int64_t>(Load<T>(data)));
}

uint64_t FloatBits(float value) { return Load<uint32_t>(&value); }

}  // namespace

uint64_t LiteralBitsOf(const Tensor& tensor) {
  const void* data = tensor.data();
  switch (tensor.dtype()) {
    case DType::kF32:
      return Load<uint32_t>(data);
    case DType::kF64:
      return Load<uint64_t>(data);
    case DType::kF16:
      return FloatBits(HalfToFloat(Load<uint16_t>(data)));
    case DType::kBF16:
      return FloatBits(BFloatToFloat(Load<uint16_t>(data)));
    case DType::kI8:
      return SignExtended<int8_t>(data);
    case DType::kI16:
      return SignExtended<int16_t>(data);
    case DType::kI32:
      return SignExtended<int32_t>(data);
    case DType::kI64:
      return SignExtended<int64_t>(data);
    case DType::kU8:
      return Load<uint8_t>(data);
    case DType::kU16:
      return Load<uint16_t>(data);
    case DType::kU32:
      return Load<uint32_t>(data);
    case DType::kU64:
      return Load<uint64_t>(data);
    case DType::kBool:
      return Load<uint8_t>(data) != 0;
  }
  return 0;
}

std::optional<uint64_t> LiteralOf(const Value& value) {
  if (!value.constant || value.constant->num_elements() != 1) return std::nullopt;
  return LiteralBitsOf(*value.constant);
}

std::optional<double> NumberOf(const Value& value) {
  const std::optional<uint64_t> bits = LiteralOf(value);
  if (!bits) return std::nullopt;
  return ConstValue(ComputeType(value.type), *bits);
}

std::string ParamBytes(DType type, uint64_t bits) {
  // Little-endian, as everywhere: the low bytes are the number in its own width.
  std::string bytes(SizeOf(type), '\0');
  std::memcpy(bytes.data(), &bits, bytes.size());
  return bytes;
}

}  // namespace kiln
