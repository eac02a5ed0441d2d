// SPDX-License-Identifier: Apache-2.0
// What is left of a row after steps of several vectors is made vector by vector, in a loop.
//
// Halide makes it as it makes a whole step, with masks: code of the same size once more, of which
// most lanes may be idle. Code is what compiling costs. Example:
//   if (x*64 + 64 <= n) { out0[ramp(x*64, 1, 64)] = f(in0[ramp(x*64, 1, 64)]) }
//   else { let m = ramp(x*64, 1, 64) < x64(n)
//          predicate (m) out0[ramp(x*64, 1, 64)] = f(in0[ramp(x*64, 1, 64)] if m) }
// has instead of the latter
//   for (t, 0, (n - x*64 + 15)/16) { let m = ramp(x*64 + t*16, 1, 16) < x16(n)
//                                    predicate (m) out0[ramp(x*64 + t*16, 1, 16)] = ... }
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_REMAINDER_LOOPS_H_
#define KILN_HALIDE_GEN_CPU_REMAINDER_LOOPS_H_

#include <Halide.h>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass for vectors of `lanes`. Tails that compute little, or have shuffles, loops, or
// masks of other forms than above, or of several limits, are left.
class RemainderLoops : public MaskReader {
 public:
  explicit RemainderLoops(int lanes) : lanes_(lanes) {}

 protected:
  using MaskReader::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::IfThenElse* op) override;

 private:
  const int lanes_;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_REMAINDER_LOOPS_H_
