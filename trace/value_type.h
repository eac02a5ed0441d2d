// SPDX-License-Identifier: Apache-2.0
// ValueType: element type and extents of a value of a log, without memory of its own.
#ifndef KILN_TRACE_VALUE_TYPE_H_
#define KILN_TRACE_VALUE_TYPE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "kiln/dim.h"

namespace kiln::tracing {

inline constexpr size_t kMaxRank = 16;

// Whether a number that claims to be an element type is one.
inline bool IsDType(DType type) { return static_cast<unsigned>(type) < unsigned{kNumDTypes}; }

struct ValueType {
  DType type = DType::kF32;
  uint8_t rank = 0;
  std::array<int64_t, kMaxRank> extents;  // the first `rank` of them

  ValueType() {}  // NOLINT: extents stay as they are
  explicit ValueType(DType t) : type(t) {}
  ValueType(const ValueType& other) { *this = other; }
  ValueType& operator=(const ValueType& other) {
    type = other.type;
    rank = other.rank;
    std::copy_n(other.extents.begin(), rank, extents.begin());
    return *this;
  }
  friend bool operator==(const ValueType& a, const ValueType& b) {
    if (a.type != b.type || a.rank != b.rank) return false;
    for (size_t i = 0; i < a.rank; ++i)  // speed: a call of memcmp would take longer
      if (a.extents[i] != b.extents[i]) return false;
    return true;
  }

  // Nothing: more than kMaxRank axes.
  static std::optional<ValueType> Of(DType type, const std::vector<int64_t>& shape) {
    if (shape.size() > kMaxRank) return std::nullopt;
    ValueType made(type);
    made.rank = static_cast<uint8_t>(shape.size());
    std::copy(shape.begin(), shape.end(), made.extents.begin());
    return made;
  }
  std::vector<int64_t> shape() const {
    return std::vector<int64_t>(extents.begin(), extents.begin() + rank);
  }
  int64_t num_elements() const {
    int64_t n = 1;
    for (size_t i = 0; i < rank; ++i) n *= extents[i];
    return n;
  }
  // "f32 [2, 3]"
  std::string ToString() const;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_VALUE_TYPE_H_
