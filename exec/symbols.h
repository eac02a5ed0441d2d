// SPDX-License-Identifier: Apache-2.0
// The values of a Program's symbols, from the shapes of its inputs.
#ifndef KILN_EXEC_SYMBOLS_H_
#define KILN_EXEC_SYMBOLS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exec/checked_program.h"
#include "exec/provider.h"
#include "kiln/dim.h"

namespace kiln {

// The elements of an integer tensor, row-major (u64: the bits).
std::vector<int64_t> IntElements(const Tensor& tensor);

// Solves dims `n` first, then elements of inputs (CheckedPort::elements), then dims linear in one
// symbol (`2*n + 1`), then checks every dim of every present input. Example, with inputs a [n, 64]
// and b [n], and tensors a [4, 64] and b [3]:
//
//   input "b": dim 0 is 3, but n is 4 as input "a" has it; give inputs whose shapes agree
//
// Symbols of absent inputs alone stay without a value. `inputs` has one entry per port.
absl::StatusOr<SymbolValues> BindSymbols(const std::vector<CheckedPort>& ports,
                                         const std::vector<InputInfo>& inputs);

}  // namespace kiln

#endif  // KILN_EXEC_SYMBOLS_H_
