// SPDX-License-Identifier: Apache-2.0
// Loads and divisions that are the same in every step of a loop are made before it.
//
// The compiler leaves loads inside, and all that is made of them: a prefetch or a store may change
// them for all it knows. It leaves divisions under a condition inside: they may trap for all it
// knows. Example:
//   for (x, 0, n) { out[ramp(x*64, 1, 64)] = in0[ramp(x*64, 1, 64)] - x64(float32(in1[row / m])) }
// becomes
//   if (0 < n) { let invariant = in1[row / m];  for (x, 0, n) { ... - x64(float32(invariant)) } }
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_LOOP_INVARIANTS_H_
#define KILN_HALIDE_GEN_CPU_LOOP_INVARIANTS_H_

#include <Halide.h>

namespace kiln {

// A lowering pass over innermost serial loops. Only loads of one element that every step makes, and
// of buffers that the loop does not write, so that none is made that was not before. Divisions and
// remainders of integers by what is no constant: Halide gives them a meaning for all values.
class LoopInvariants : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_LOOP_INVARIANTS_H_
