// SPDX-License-Identifier: Apache-2.0
// Marks stores to outputs as aligned where the shapes say that they are.
//
// Given that outputs begin at lines and that their rows are whole lines long (WholeLines in
// kernel/abi.h), a store of a vector is aligned where its place is a multiple of the vector. The
// compiler then takes an instruction for aligned stores, and for no other store of a kernel than
// these and those to its stack: assembly says which may bypass the caches (non_temporal.h).
// Example:
//   out0[ramp(row*extent1 + x*16, 1, 16)] = ...       extent1 is a multiple of 16: aligned
//   out0[ramp(row*extent1 + x*16 + 8, 1, 16)] = ...   not
// Rows that are made in pieces (schedule/index_split.h) are so if the extents that make up
// their cuts are multiples of a line, which the kernel looks for when it is called. A row of which
// some pieces bypass the caches takes longer than one of which none does.
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_ALIGNED_STORES_H_
#define KILN_HALIDE_GEN_CPU_ALIGNED_STORES_H_

#include <Halide.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/non_temporal.h"

namespace kiln {

// What is taken for granted of extents besides; nothing if some pieces of rows are never aligned.
std::optional<std::vector<LineExtent>> CutsAtLines(const Kernel& kernel, const Schedule& schedule);

// Says in each Store how it is aligned. A lowering pass; comes last.
class AlignedStores : public Halide::Internal::IRMutator {
 public:
  // Tells Halide, too, that the buffers of `nests` begin at lines.
  AlignedStores(const Kernel& kernel, const Schedule& schedule, const Operands& operands,
                std::vector<OutputNest>& nests);

 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* op) override;
  Halide::Internal::Stmt visit(const Halide::Internal::Store* op) override;

 private:
  // What variables are multiples of.
  Halide::Internal::Scope<Halide::Internal::ModulusRemainder> known_;
  std::set<std::string> outputs_;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_ALIGNED_STORES_H_
