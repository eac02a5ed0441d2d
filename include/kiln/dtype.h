// SPDX-License-Identifier: Apache-2.0
// The element types of tensors.
//
// f16 and bf16 are storage types: kernels load them, compute in f32 and round once at the store.
// bool is stored as one byte, 0 or 1.
#ifndef KILN_DTYPE_H_
#define KILN_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace kiln {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool
};
inline constexpr int kNumDTypes = 13;

// "f32", "bf16", "i64", "u8", "bool", ...
absl::string_view Name(DType type);

// The inverse of Name; nothing for any other text.
std::optional<DType> ParseDType(absl::string_view name);

// Bytes of one stored element.
size_t SizeOf(DType type);

bool IsFloat(DType type);   // f32 f64 f16 bf16
bool IsSigned(DType type);  // i8 .. i64
bool IsInt(DType type);     // signed and unsigned integers; not bool

}  // namespace kiln

#endif  // KILN_DTYPE_H_
