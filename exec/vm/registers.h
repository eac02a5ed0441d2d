// SPDX-License-Identifier: Apache-2.0
// Registers of a pass while it is made: how often each is written.
#ifndef KILN_EXEC_VM_REGISTERS_H_
#define KILN_EXEC_VM_REGISTERS_H_

#include <cstdint>

namespace kiln::vm {

enum Level : uint8_t { kOnce, kRow, kOver, kInner, kBody };

// How often something changes that depends on two others.
inline Level Join(Level a, Level b) {
  if (a > b) return Join(b, a);
  return a == b || a == kOnce || b == kOver ? b : kBody;
}

inline bool VariesInBlock(Level level) { return level >= kInner; }

struct Register {
  uint8_t size = 0;
  Level level = kOnce;  // how often it is written
  bool block = false;   // has room for a block
};

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_REGISTERS_H_
