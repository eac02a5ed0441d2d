// SPDX-License-Identifier: Apache-2.0
// Vectors longer than registers are stored in parts, each computed by itself.
//
// LLVM splits long vectors by halves: masks of a number of lanes that is no power of two are put
// together and taken apart again bit by bit, and all registers are asked for at once. Where the
// processor has no registers for masks (AVX2), conditions of several vectors are packed into bytes
// and unpacked again. Example:
//   out0[ramp(i, 1, 24)] = concat_vectors(a, b) + x24(s)
// becomes
//   out0[ramp(i, 1, 16)] = a + x16(s)
//   out0[ramp(i + 16, 1, 8)] = b + x8(s)
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_NARROW_STORES_H_
#define KILN_HALIDE_GEN_CPU_NARROW_STORES_H_

#include <Halide.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "halide_gen/cpu/vector_part.h"

namespace kiln {

// A lowering pass. Stores with masks are left as they are.
class NarrowStores : public Halide::Internal::IRMutator {
 public:
  // Parts of at most `most` lanes; of all stores, or of those that select lane by lane.
  NarrowStores(int most, bool all) : most_(most), all_(all) {}

 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* op) override;
  Halide::Internal::Stmt visit(const Halide::Internal::Store* op) override;

 private:
  bool IsNarrow(int lanes) const;

  // For vectors of `lanes`.
  VectorPart PartAt(size_t part, int lanes) const;

  const int most_;
  const bool all_;
  std::map<std::string, std::vector<Halide::Expr>> parts_;  // of named vectors
  std::set<std::string> used_;                              // names in stores that were split
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_NARROW_STORES_H_
