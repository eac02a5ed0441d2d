// SPDX-License-Identifier: Apache-2.0
// Executing a list of instructions, with its reads of operands.
#ifndef KILN_EXEC_VM_ACCESS_H_
#define KILN_EXEC_VM_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/vm/worker.h"

namespace kiln::vm {

// The element that `linear` names at these coordinates.
inline int64_t At(const Linear& linear, const int64_t* coordinate, int32_t num_dims) {
  int64_t at = linear.offset;
  for (int32_t d = 0; d < num_dims; ++d) at += linear.step[d] * coordinate[d];
  return at;
}

// The same in a temporary, which holds the coordinates of the worker's cell only.
inline int64_t TempAt(const Linear& linear, const Worker& worker) {
  const Program& program = *worker.launch->program;
  const int64_t at = At(linear, worker.coordinate, program.num_iterated);
  return program.group < 0 ? at : at - linear.step[program.group] * worker.group_first;
}

// Runs a list of the pass for n elements from the worker's coordinates; kFill writes `fill`
// elements.
void RunList(const std::vector<Insn>& list, size_t n, size_t fill, const Worker& worker,
             const Pass& pass, Frame& frame);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_ACCESS_H_
