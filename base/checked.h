// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from outside: nothing instead of a wrapped number.
//
//   const std::optional<int64_t> bytes = CheckedProduct(shape);
//   if (!bytes) return absl::InvalidArgumentError(...);
#ifndef KILN_BASE_CHECKED_H_
#define KILN_BASE_CHECKED_H_

#include <cstdint>
#include <optional>
#include <span>

namespace kiln {

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<int64_t> CheckedSub(int64_t a, int64_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a, b, &difference)) return std::nullopt;
  return difference;
}

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The product of all factors, 1 for none. A factor of zero makes it zero in whatever order the
// factors stand, however large the others are.
inline std::optional<int64_t> CheckedProduct(std::span<const int64_t> factors) {
  for (const int64_t factor : factors) {
    if (factor == 0) return 0;
  }
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

// The least multiple of `unit` that is not below `n`. `n` >= 0, `unit` > 0.
inline std::optional<int64_t> CheckedRoundUp(int64_t n, int64_t unit) {
  const int64_t rest = n % unit;
  return rest == 0 ? std::optional<int64_t>(n) : CheckedAdd(n, unit - rest);
}

}  // namespace kiln

#endif  // KILN_BASE_CHECKED_H_
