// SPDX-License-Identifier: Apache-2.0
// Loads of scalar inputs are calls of an unknown function until Halide has inferred all bounds.
//
// Bounds inference writes out what is computed of a loop-invariant load as a tree: 2^n operations
// for x = x * x, n times, as pow of integers does. The value of an unknown function has no bounds.
// It is pure: Halide masks it in the tail of a row and moves it out of loops, as it does a load.
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_COMMON_OPAQUE_LOADS_H_
#define KILN_HALIDE_GEN_COMMON_OPAQUE_LOADS_H_

#include <Halide.h>

namespace kiln {

// `load`, by an unknown pure function.
Halide::Expr Opaque(const Halide::Expr& load);

// A lowering pass: the loads without that function.
class OpaqueLoads : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Call* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_OPAQUE_LOADS_H_
