// SPDX-License-Identifier: Apache-2.0
// Masked loads of elements a few apart are made of masked loads of neighbours.
//
// Without a mask Halide loads all that lies between, and picks lanes; with one it loads lane by
// lane. Example:
//   in0[ramp(y*3, 3, 16)] if ramp(y, 1, 16) < x16(n)
// becomes
//   slice_vectors(in0[ramp(y*3, 1, 48)] if ramp(0, 1, 48) < x48(min(n - y, 16)*3 - 2), 0, 3, 16)
// which reads nothing behind the last element that is asked for.
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_STRIDED_LOADS_H_
#define KILN_HALIDE_GEN_CPU_STRIDED_LOADS_H_

#include <Halide.h>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass. Masks of other forms than above are left as they are.
class StridedLoads : public MaskReader {
 protected:
  using MaskReader::visit;
  Halide::Expr visit(const Halide::Internal::Load* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_STRIDED_LOADS_H_
