// SPDX-License-Identifier: Apache-2.0
// Tiles of n x n elements are turned by log2(n) rounds of n shuffles.
//
// Where tiles are filled row by row and read column by column (outer_vectorized.cc, transpose.cc),
// Halide stores interleaved vectors, of which LLVM makes whatever its search for shuffles of two
// vectors finds: 177 for 16 x 16 elements. In round b of the network here, rows i and i + 2^b swap
// their blocks of 2^b elements at odd places of the one and even places of the other: 64 shuffles.
// Example, 2 x 2:
//   (a0 a1) (b0 b1)  ->  (a0 b0) (a1 b1)
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_REGISTER_TRANSPOSE_H_
#define KILN_HALIDE_GEN_CPU_REGISTER_TRANSPOSE_H_

#include <Halide.h>

namespace kiln {

// A lowering pass: dense stores of 8 or 16 interleaved vectors of 8 or 16 elements of 32 bits each.
class RegisterTranspose : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::Store* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_REGISTER_TRANSPOSE_H_
