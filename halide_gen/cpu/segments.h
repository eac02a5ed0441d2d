// SPDX-License-Identifier: Apache-2.0
// The pieces of a row between its cuts, see schedule/index_split.h.
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_SEGMENTS_H_
#define KILN_HALIDE_GEN_CPU_SEGMENTS_H_

#include <Halide.h>

#include <vector>

#include "halide_gen/common/expr_emitter.h"
#include "kernel/kernel.h"

namespace kiln {

// Where pieces begin, and behind the last one.
std::vector<Halide::Expr> EdgesOf(const std::vector<IndexExpr>& cuts, const Operands& operands,
                                  const Halide::Expr& length);

// The values of the outputs `group` at `dims`, outermost first, of vectors along the last that
// reach over several pieces: each lane has the value that its piece makes of it. What only some
// pieces read is loaded under masks; what all read is loaded once.
std::vector<Halide::Expr> BlendedPieces(const Kernel& kernel, const Operands& operands,
                                        const std::vector<size_t>& group,
                                        const std::vector<Halide::Var>& dims);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_SEGMENTS_H_
