// SPDX-License-Identifier: Apache-2.0
// Which thunks of a program some of its outputs need (Context::SetOutputs).
//
// Example: t = neg(x); y = exp(t); z = log(x). For y alone the first two are needed.
#ifndef KILN_EXEC_NEEDED_THUNKS_H_
#define KILN_EXEC_NEEDED_THUNKS_H_

#include <vector>

#include "exec/checked_program.h"

namespace kiln {

// One flag per thunk; `wanted` has one per output. All are needed where all outputs are wanted:
// then also those that compute what nobody reads.
std::vector<bool> NeededThunks(const CheckedProgram& program, const std::vector<bool>& wanted);

}  // namespace kiln

#endif  // KILN_EXEC_NEEDED_THUNKS_H_
