// SPDX-License-Identifier: Apache-2.0
// Steps of a loop that lie within a row whole load without a mask.
//
// Where the last step of a row fills its vectors whole, its loads are masked, and so are those of
// all other steps: a mask takes two vector instructions, and all but the last have every lane.
// Example:
//   for (x, 0, n) { let i = ramp(x*16, 1, 16)
//                   s1[i] = f(in0[i] if i < x16(m)) }
// becomes
//   for (x, 0, n) { let i = ramp(x*16, 1, 16)
//                   s1[i] = f(if_then_else(x*16 + 15 < m, in0[i], in0[i] if i < x16(m))) }
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_UNMASKED_LOOPS_H_
#define KILN_HALIDE_GEN_CPU_UNMASKED_LOOPS_H_

#include <Halide.h>

#include <string>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass. Loads that are not of the innermost loop, have masks of other forms than above,
// or stand under a condition, are left as they are.
class UnmaskedLoops : public MaskReader {
 protected:
  using MaskReader::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
  Halide::Internal::Stmt visit(const Halide::Internal::IfThenElse* op) override;
  Halide::Expr visit(const Halide::Internal::Load* op) override;

 private:
  std::string loop_;  // the innermost serial one around
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_UNMASKED_LOOPS_H_
