// SPDX-License-Identifier: Apache-2.0
// Where the windows of a pool lie in its operands, for loops over output places and taps.
#ifndef KILN_EXEC_LIBRARY_POOL_GEOMETRY_H_
#define KILN_EXEC_LIBRARY_POOL_GEOMETRY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "exec/library/shapes.h"

namespace kiln::library {

// Which taps of a window lie inside the input, for one output coordinate of one axis.
struct Taps {
  int64_t first = 0, last = 0;  // [first, last) of the window
  int64_t start = 0;            // input coordinate of tap 0
  int64_t counted = 0;          // taps inside input and padding
};

// Always three spatial axes; missing ones, in front, have extent 1.
struct PoolGeometry {
  std::array<std::vector<Taps>, 3> taps;  // by output coordinate
  std::array<int64_t, 3> step{};          // elements of x from tap to tap
  std::array<int64_t, 3> in_stride{};     // elements of x
  std::array<int64_t, 3> out_stride{};    // elements of y

  // Output coordinates of all places in a row.
  int64_t places() const {
    return static_cast<int64_t>(taps[0].size() * taps[1].size() * taps[2].size());
  }
};

// `x` and `y`: operands whose strides are those of the input and of the output.
PoolGeometry GeometryOf(const PoolForm& form, const Operand& x, const Operand& y);

// Taps that the mean at a place is of.
inline int64_t CountOf(const Taps& d, const Taps& h, const Taps& w, bool include_pad) {
  if (include_pad) return d.counted * h.counted * w.counted;
  return (d.last - d.first) * (h.last - h.first) * (w.last - w.first);
}

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_POOL_GEOMETRY_H_
