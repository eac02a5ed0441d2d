// SPDX-License-Identifier: Apache-2.0
// Masked loads of one element for all lanes are one load.
//
// Where the rest of a row is read under a mask, so is what all its lanes share, as the row's
// maximum; Halide makes a branch for each lane of that. Example:
//   if_then_else(ramp(i, 1, 16) < x16(n), x16(in1[row]))
// becomes
//   x16(if_then_else(i < n, in1[row], 0))
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_UNIFORM_LOADS_H_
#define KILN_HALIDE_GEN_CPU_UNIFORM_LOADS_H_

#include <Halide.h>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass. Masks of other forms than above are left as they are.
class UniformLoads : public MaskReader {
 protected:
  using MaskReader::visit;
  Halide::Expr visit(const Halide::Internal::Call* op) override;

 private:
  // A condition of the first lane, which holds if that of any lane does; undefined if not known.
  Halide::Expr FirstLane(const Halide::Expr& mask) const;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_UNIFORM_LOADS_H_
