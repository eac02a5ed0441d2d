// SPDX-License-Identifier: Apache-2.0
// Bytes that begin at a line of the cache, as kernels' operands do that may be streamed.
#ifndef KILN_TESTS_KERNEL_LINE_BYTES_H_
#define KILN_TESTS_KERNEL_LINE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "kernel/abi.h"

namespace kiln {

template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlign{static_cast<size_t>(kLine)};
  LineAllocator() = default;
  template <typename U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlign)); }
  void deallocate(T* first, size_t) { ::operator delete(first, kAlign); }
  bool operator==(const LineAllocator&) const = default;
};

using LineBytes = std::vector<uint8_t, LineAllocator<uint8_t>>;

}  // namespace kiln

#endif  // KILN_TESTS_KERNEL_LINE_BYTES_H_
