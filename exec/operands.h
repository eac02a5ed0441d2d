// SPDX-License-Identifier: Apache-2.0
// What a thunk reads and writes, with numbers.
#ifndef KILN_EXEC_OPERANDS_H_
#define KILN_EXEC_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "exec/placement.h"
#include "exec/resolve.h"

namespace kiln {

struct Operands {
  std::vector<ResolvedRef> inputs, outputs;
  std::vector<int64_t> dims;
};

inline PlacementProblem::Access AccessOf(const ResolvedRef& ref) {
  return {ref.buffer, ref.begin, ref.end, ref.dense, static_cast<int64_t>(SizeOf(ref.type))};
}

}  // namespace kiln

#endif  // KILN_EXEC_OPERANDS_H_
