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
// Where it computes little and goes along line after line, the processor does as well by itself.
//
// A row that is read, computed on and written in loops one after the other waits for the lines it
// writes. So the loop before asks for them, while it computes on what is near:
//   for (x, 0, n) { s1[ramp(x*64, 1, 64)] = f(...) }       here prefetch out0 at row*m + x*64, ...
//   for (x, 0, n) { out0[ramp(row*m + x*64, 1, 64)] = g(s1[...]) }
//
// Likewise the first loop of a row waits for it, and has little to compute meanwhile; a later one
// that computes more asks for the next row:
//   for (x, 0, n) { max = ... in0[ramp(row*m + x*64, 1, 64)] }
//   for (x, 0, n) { s1[...] = f(in0[...]) }                here prefetch in0 at (row + 1)*m + x*64
//
// And a loop over tiles of a transposition asks for the lines that the next tile writes.
//
// What lies so far ahead may lie behind the end of the input: to prefetch is a hint, it never
// faults. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_PREFETCH_H_
#define KILN_HALIDE_GEN_CPU_PREFETCH_H_

#include <Halide.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// A lowering pass: for each serial loop, the vectors that it loads from the buffers `inputs` at
// addresses that grow with its steps are asked for some steps before; and lines of `outputs` by a
// loop, or step, before the one that writes them.
class Prefetching : public Halide::Internal::IRMutator {
 public:
  // Elements [first, first + span) of `buffer`, of a step.
  struct Vector {
    std::string buffer;
    Halide::Type type;
    Halide::Expr first;
    int span = 0;
  };

  // What a loop is to ask for beside its own inputs.
  using Asked = std::map<const Halide::Internal::For*, std::vector<Vector>>;

  Prefetching(std::set<std::string> inputs, std::set<std::string> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

 protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

 private:
  const std::set<std::string> inputs_, outputs_;
  Asked next_;    // lines of the next row
  Asked writes_;  // lines that later loops, or steps, write
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_PREFETCH_H_
