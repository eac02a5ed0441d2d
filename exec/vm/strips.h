// SPDX-License-Identifier: Apache-2.0
// Making strips of a list of instructions.
#ifndef KILN_EXEC_VM_STRIPS_H_
#define KILN_EXEC_VM_STRIPS_H_

#include <set>
#include <vector>

#include "exec/vm/program.h"
#include "exec/vm/registers.h"

namespace kiln::vm {

// Reorders the list so that its steps stand together, and replaces them by strips, which are added
// to the pass. `wanted` are the registers that are needed after the list.
void FormStrips(const OpTable& ops, const std::vector<Read>& reads,
                const std::vector<Register>& regs, const std::set<int32_t>& wanted,
                std::vector<Insn>& list, Pass& pass);

// The registers that an instruction reads: of a strip, all that its steps load.
std::vector<int32_t> OperandsOf(const Insn& insn, const std::vector<Read>& reads, const Pass& pass);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_STRIPS_H_
