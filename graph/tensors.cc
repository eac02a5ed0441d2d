// SPDX-License-Identifier: Apache-2.0
#include "graph/tensors.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernel/scalar_expr.h"

namespace kiln {
namespace {

template <typename T>
T Load(const Tensor& dense, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(dense.data()) + static_cast<size_t>(i) * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T>
void Store(Tensor& dense, int64_t i, T value) {
  std::memcpy(static_cast<char*>(dense.data()) + static_cast<size_t>(i) * sizeof(T), &value,
              sizeof(T));
}

// A float that rounds to the same 16-bit value as the double does: round to odd keeps the second
// rounding exact.
float ToFloatForNarrowing(double value) {
  float nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(nearest) || static_cast<double>(nearest) == value)
    return nearest;
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  const float towards =
      std::nextafter(nearest, static_cast<double>(nearest) < value ? INFINITY : -INFINITY);
  return (std::bit_cast<uint32_t>(towards) & 1u) != 0 ? towards : nearest;
}

}  // namespace

int64_t ReadInt(const Tensor& dense, int64_t i) {
  switch (dense.dtype()) {
    case DType::kI8:
      return Load<int8_t>(dense, i);
    case DType::kI16:
      return Load<int16_t>(dense, i);
    case DType::kI32:
      return Load<int32_t>(dense, i);
    case DType::kU8:
      return Load<uint8_t>(dense, i);
    case DType::kU16:
      return Load<uint16_t>(dense, i);
    case DType::kU32:
      return Load<uint32_t>(dense, i);
    case DType::kBool:
      return Load<uint8_t>(dense, i) != 0 ? 1 : 0;
    default:
      return Load<int64_t>(dense, i);
  }
}

double ReadFloat(const Tensor& dense, int64_t i) {
  switch (dense.dtype()) {
    case DType::kF32:
      return Load<float>(dense, i);
    case DType::kF64:
      return Load<double>(dense, i);
    case DType::kF16:
      return HalfToFloat(Load<uint16_t>(dense, i));
    case DType::kBF16:
      return BFloatToFloat(Load<uint16_t>(dense, i));
    default:
      return static_cast<double>(ReadInt(dense, i));
  }
}

void WriteInt(Tensor& dense, int64_t i, int64_t value) {
  switch (SizeOf(dense.dtype())) {
    case 1:
      return Store(dense, i,
                   dense.dtype() == DType::kBool ? static_cast<uint8_t>(value != 0)
                                                 : static_cast<uint8_t>(value));
    case 2:
      return Store(dense, i, static_cast<uint16_t>(value));
    case 4:
      return Store(dense, i, static_cast<uint32_t>(value));
    default:
      return Store(dense, i, value);
  }
}

void WriteFloat(Tensor& dense, int64_t i, double value) {
  switch (dense.dtype()) {
    case DType::kF32:
      return Store(dense, i, static_cast<float>(value));
    case DType::kF64:
      return Store(dense, i, value);
    case DType::kF16:
      return Store(dense, i, FloatToHalf(ToFloatForNarrowing(value)));
    case DType::kBF16:
      return Store(dense, i, FloatToBFloat(ToFloatForNarrowing(value)));
    default:
      return;
  }
}

double RoundTo(double value, DType type) {
  switch (type) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return HalfToFloat(FloatToHalf(ToFloatForNarrowing(value)));
    case DType::kBF16:
      return BFloatToFloat(FloatToBFloat(ToFloatForNarrowing(value)));
    default:
      return value;
  }
}

Tensor FilledTensor(DType type, std::vector<int64_t> shape, double value) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  const int64_t n = tensor.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (IsFloat(type)) {
      WriteFloat(tensor, i, value);
    } else {
      WriteInt(tensor, i, static_cast<int64_t>(ConstBits(type, value)));
    }
  }
  return tensor;
}

Tensor Dense(const Tensor& tensor) { return tensor.is_dense() ? tensor : tensor.Clone(); }

}  // namespace kiln
