// SPDX-License-Identifier: Apache-2.0
// The last steps of making a pass: strips, and places for registers.
#ifndef KILN_EXEC_VM_FINISH_H_
#define KILN_EXEC_VM_FINISH_H_

#include <cstdint>
#include <vector>

#include "exec/vm/program.h"

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

// Drops instructions whose result nobody needs, makes strips of steps, and gives registers their
// places in the frame; `regs` is by number.
void FinishLists(const OpTable& ops, const std::vector<Read>& reads,
                 const std::vector<Register>& regs, Pass& pass);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_FINISH_H_
