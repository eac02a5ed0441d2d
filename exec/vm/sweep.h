// SPDX-License-Identifier: Apache-2.0
// Passes that go over rows together: row sums, column sums and what becomes of the row sums.
//
// A program with an empty prefix runs one pass after the other, each over all of its operands.
// Where sums of columns are all that keeps rows from being cells, its first passes can take a block
// of rows in turn, while that is in the cache: the backward pass of a layer norm reads its operands
// from memory once instead of three times.
#ifndef KILN_EXEC_VM_SWEEP_H_
#define KILN_EXEC_VM_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "exec/vm/launch_state.h"

namespace kiln::vm {

// How many passes, from the first on, may be swept over dim 0: each goes over it as its outermost
// loop or sums over it, and reads what another of them makes at the own coordinate only. 0 if none
// of them sums over it.
size_t SweptPasses(const Program& program);

// Whether the units of the swept passes leave nothing to be reduced before another may read it.
bool MaySweep(const Launch& launch);

// Blocks of rows, as many as column sums reduce at once, and the units [first, second) of a swept
// pass that are of one.
int64_t SweptBlocks(const Launch& launch);
std::pair<int64_t, int64_t> UnitsOfBlock(const Launch& launch, size_t pass, int64_t block);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_SWEEP_H_
