// SPDX-License-Identifier: Apache-2.0
// A choice that all lanes make alike, between elements found one by one, is a branch.
//
// Vectors along one axis of a concat along another ask for all parts, each element by element, and
// keep one. Example, with loads of every n-th element:
//   select(x16(b < 36), in0[ramp(i, n, 16)], in1[ramp(j, n, 16)])
// becomes
//   if_then_else(x16(b < 36), in0[ramp(i, n, 16)], in1[ramp(j, n, 16)])
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_UNIFORM_BRANCHES_H_
#define KILN_HALIDE_GEN_CPU_UNIFORM_BRANCHES_H_

#include <Halide.h>

namespace kiln {

// A lowering pass. Vectors of neighbours stay: a load of them takes less than a branch.
class UniformBranches : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Select* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_UNIFORM_BRANCHES_H_
