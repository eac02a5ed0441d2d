// SPDX-License-Identifier: Apache-2.0
// What loop nests of add_at (kernel/kernel.h) are made of on every device: the output's axes, and
// what is added, in order, in parts that no two tasks or threads share. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_COMMON_ORDERED_SUMS_H_
#define KILN_HALIDE_GEN_COMMON_ORDERED_SUMS_H_

#include <Halide.h>

#include <cstddef>
#include <vector>

#include "halide_gen/common/expr_emitter.h"
#include "kernel/kernel.h"

namespace kiln {

// The axes of the output, innermost first, with their extents; `x` runs along the first.
struct OutputAxes {
  std::vector<Halide::Var> vars;
  std::vector<Halide::Expr> extents;
};
OutputAxes AxesOfSums(const Kernel& kernel, const Operands& operands, const Halide::Var& x);

// How much is added: rows of the innermost dim if the kernel AddsRows, else elements.
Halide::Expr CountOfAdded(const Kernel& kernel, const Operands& operands);
// The extent of the axis that parts divide (DividedAxis).
Halide::Expr DividedExtent(const Kernel& kernel, const Operands& operands);

// All that is added, as often as there are parts, of which each takes what is in its range of the
// divided axis; or the one part where all HasOnePlace.
struct AddedElements {
  Halide::RDom places;              // [0]: which, in order; [1]: the part
  Halide::Expr value;               // as in memory
  std::vector<Halide::Expr> where;  // it goes, innermost axis first
  size_t divided;                   // of `where`
};
AddedElements ElementsToAdd(const Kernel& kernel, const Operands& operands, const Halide::Var& x,
                            const Halide::Expr& parts);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_ORDERED_SUMS_H_
