// SPDX-License-Identifier: Apache-2.0
// SizeClass: what is known of the extents of a kernel's dims when code is generated.
//
// A kernel compiled for a class is right for every tuple of extents inside it. The launch picks the
// first class of a kernel that contains the extents at hand.
//
// Example: dims a, b with b a constant 768 and a symbolic have the class {at_most = {kUnbounded,
// 768}}.
#ifndef KILN_SCHEDULE_SIZE_CLASS_H_
#define KILN_SCHEDULE_SIZE_CLASS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

inline constexpr int64_t kUnbounded = INT64_MAX;

struct SizeClass {
  std::vector<int64_t> at_most;  // one bound for each dim
  // Dims whose bound is no extent: only the class ends there. None where empty; a dim without a
  // bound needs no mark.
  std::vector<bool> open = {};

  // True if `extents` (one per dim) lie in the class.
  bool Contains(std::span<const int64_t> extents) const {
    return std::equal(extents.begin(), extents.end(), at_most.begin(), at_most.end(),
                      [](int64_t extent, int64_t limit) { return extent <= limit; });
  }
  bool IsExtent(size_t dim) const {
    return at_most[dim] != kUnbounded && (dim >= open.size() || !open[dim]);
  }
};

}  // namespace kiln

#endif  // KILN_SCHEDULE_SIZE_CLASS_H_
