// SPDX-License-Identifier: Apache-2.0
// Parts of neighbouring vectors of a small buffer are shuffled out of the vectors that were stored.
//
// Halide loads all that lies between the first and the last element that it picks. Such a load
// begins in the midst of one vector and ends in the next: the processor waits until both stores
// have reached the cache, and the compiler cannot keep the buffer in registers. Example, of a
// buffer that is stored by 16:
//   shuffle(b[ramp(8, 1, 24)], 0, ..., 7, 16, ..., 23)
// becomes
//   shuffle(b[ramp(0, 1, 16)], b[ramp(16, 1, 16)], 8, ..., 15, 24, ..., 31)
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_FORWARDED_LOADS_H_
#define KILN_HALIDE_GEN_CPU_FORWARDED_LOADS_H_

#include <Halide.h>

#include <map>
#include <string>

namespace kiln {

// A lowering pass, for shuffles of one load at a constant place of a buffer on the stack.
class ForwardedLoads : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::Allocate* op) override;
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* op) override;
  Halide::Expr visit(const Halide::Internal::Shuffle* op) override;

 private:
  std::map<std::string, int> sizes_;                            // in elements, by buffer
  std::map<std::string, const Halide::Internal::Load*> named_;  // loads bound to names
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_FORWARDED_LOADS_H_
