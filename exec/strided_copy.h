// SPDX-License-Identifier: Apache-2.0
// Copies between two layouts of one shape. Axes that both layouts step through alike are merged
// when the copy is made, so that a dense copy is one memmove and rows are copied whole. Running it
// allocates nothing.
#ifndef KILN_EXEC_STRIDED_COPY_H_
#define KILN_EXEC_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides in elements, one per axis; `item` is the bytes of an element. The elements' addresses
  // are the caller's to check.
  StridedCopy(const std::vector<int64_t>& shape, const std::vector<int64_t>& from,
              const std::vector<int64_t>& to, size_t item);
  void Run(const void* from, void* to) const;

 private:
  struct Axis {
    int64_t extent, from, to;  // strides in bytes
  };
  void Walk(size_t axis, const uint8_t* from, uint8_t* to) const;

  std::vector<Axis> axes_;  // outermost first
  size_t run_ = 0;          // bytes that lie together in both; 0: nothing to copy
};

}  // namespace kiln

#endif  // KILN_EXEC_STRIDED_COPY_H_
