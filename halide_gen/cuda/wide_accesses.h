// SPDX-License-Identifier: Apache-2.0
// A lowering pass: vectors of 8- and 16-bit elements are read and written as 32-bit words. Private:
// has Halide.h.
//
// LLVM cuts such a vector into accesses of four elements, of which a warp uses half of each sector.
//   in0[ramp(8*x, 1, 8)]  of uint16  ->  reinterpret<uint16x8>(in0[ramp(4*x, 1, 4)] of int32)
// Only operands of the kernel, where the vector begins at a word.
#ifndef KILN_HALIDE_GEN_CUDA_WIDE_ACCESSES_H_
#define KILN_HALIDE_GEN_CUDA_WIDE_ACCESSES_H_

#include <Halide.h>

namespace kiln {

class WideAccesses : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Load* op) override;
  Halide::Internal::Stmt visit(const Halide::Internal::Store* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_WIDE_ACCESSES_H_
