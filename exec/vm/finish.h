// SPDX-License-Identifier: Apache-2.0
// The last steps of making a pass: strips, and places for registers.
#ifndef KILN_EXEC_VM_FINISH_H_
#define KILN_EXEC_VM_FINISH_H_

#include <vector>

#include "exec/vm/program.h"
#include "exec/vm/registers.h"

namespace kiln::vm {

// Drops instructions whose result nobody needs, makes strips of steps, and gives registers their
// places in the frame; `regs` is by number.
void FinishLists(const OpTable& ops, const std::vector<Read>& reads,
                 const std::vector<Register>& regs, Pass& pass);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_FINISH_H_
