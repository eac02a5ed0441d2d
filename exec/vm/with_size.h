// SPDX-License-Identifier: Apache-2.0
// Loops that only move elements need their size, not their type.
#ifndef KILN_EXEC_VM_WITH_SIZE_H_
#define KILN_EXEC_VM_WITH_SIZE_H_

#include <cstddef>
#include <cstdint>

namespace kiln::vm {

// Calls f with an unsigned integer of `size` bytes.
template <typename F>
void WithSize(size_t size, F f) {
  switch (size) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_WITH_SIZE_H_
