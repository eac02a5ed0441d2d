// SPDX-License-Identifier: Apache-2.0
// Loops that read inputs as they lie ask for the lines that they will need soon.
//
// The processor's own prefetching starts anew at every page and looks some lines ahead only; where
// the data come from memory, a loop that computes much for each line waits at most of them.
// Example:
//   for (x, 0, n) { out[ramp(x*64, 1, 64)] = f(in0[ramp(x*64, 1, 64)]) }
// becomes, for f32,
//   for (x, 0, n) { prefetch in0 at (x + 8)*64 + 0, 16, 32, 48;  out[...] = f(in0[...]) }
//
// What lies so far ahead may lie behind the end of the input: to prefetch is a hint, it never
// faults. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_PREFETCH_H_
#define KILN_HALIDE_GEN_PREFETCH_H_

#include <Halide.h>

#include <set>
#include <string>

namespace kiln {

// A lowering pass: for each serial loop, the vectors that it loads from the buffers `inputs` at
// addresses that grow with its steps are asked for some steps before.
class Prefetching : public Halide::Internal::IRMutator {
 public:
  explicit Prefetching(std::set<std::string> inputs) : inputs_(std::move(inputs)) {}

 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

 private:
  const std::set<std::string> inputs_;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_PREFETCH_H_
