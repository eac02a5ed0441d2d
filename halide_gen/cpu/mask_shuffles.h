// SPDX-License-Identifier: Apache-2.0
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_MASK_SHUFFLES_H_
#define KILN_HALIDE_GEN_CPU_MASK_SHUFFLES_H_

#include <Halide.h>

namespace kiln {

// Repeats lanes of conditions as bytes: shuffle(c, 0, 1, 0, 1, ...) is
// shuffle(select(c, 1, 0), 0, 1, 0, 1, ...) != 0. For AVX-512 the LLVM of Halide 21 repeats two or
// four bits of a mask register as a byte of which the rest is zero, a wrong result.
class MaskShuffles : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Shuffle* op) override;
  Halide::Expr visit(const Halide::Internal::Broadcast* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_MASK_SHUFFLES_H_
