// SPDX-License-Identifier: Apache-2.0
// One dim of a reduction as Halide Funcs that combine in exactly the order of kernel.h. Private:
// has Halide.h.
//
// A reduction by the lane rule is, per block k of 4096 elements,
//   lanes(l, k, ...)   64 accumulators: lane l takes elements l, l + 64, ...; the loop over those
//                      steps is `step`, the rest of a block that is no multiple of 64 is combined
//                      by a second update over `tail`
//   folded(j, k, ...)  the first three halvings, 8 values of 8 lanes each
//   blocks(k, ...)     the other three halvings
// and the blocks are reduced in the same way, until at the top level one is left, which has no k.
// Blocked rows leave their `folded` side by side, and share the vectors of each halving from
// there on: `halves`, of which blocks is the last.
// Other dims have, per block of 32 elements, one accumulator: `blocks` itself, with its update
// over `step`. Fewer elements than 64 leave accumulators at the identity, which changes nothing: a
// spec may say that only so many have to be there ("accumulators": 2, 4, 8, or a multiple of 16).
// `levels` bounds the extent: 4096^levels, or 32^levels, elements.
#ifndef KILN_HALIDE_GEN_CPU_REDUCTION_H_
#define KILN_HALIDE_GEN_CPU_REDUCTION_H_

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// What else is reduced in the same steps: Funcs are then tuples, of the spec's own value and these.
// Not by the lane rule.
struct ReducedBeside {
  ReduceOp op = ReduceOp::kAdd;
  DType type = DType::kF32;
  std::function<Halide::Expr(const Halide::Expr&)> element;
};

struct ReductionSpec {
  std::string name;
  ReduceOp op = ReduceOp::kAdd;
  DType type = DType::kF32;
  Halide::Expr extent;  // of the reduced dim: not 0, launches that reduce nothing are the VM's
  bool lanes = true;    // the rule of the innermost dim
  int levels = 1;
  int accumulators = static_cast<int>(kReduceLanes);  // of the lane rule that may take elements
  std::vector<Halide::Var> vars;                      // of the result, innermost first
  int blocked_rows = 0;  // of the lane rule: so many neighbours along `row`, one of `vars`, fold
  Halide::Var row{};     // together, if positive
  // If given, only where it holds there is something to load along the first of `vars`.
  Halide::Expr inside{};
  std::function<Halide::Expr(const Halide::Expr&)>
      element;  // at an index along the reduced dim, as in memory
  std::vector<ReducedBeside> beside{};
};

struct ReductionLevel {
  Halide::Func lanes, folded;  // lane rule only
  // What a last, incomplete step at the top adds to the lanes, if that is expensive.
  Halide::Func rest;
  Halide::Expr rest_extent;
  std::vector<Halide::Func> halves;  // of blocked rows: what each step of their folds leaves
  Halide::Func
      blocks;  // lane rule: arguments (k, vars...), else (vars..., k); k is absent at the top
  Halide::Var lane, fold, block;
  Halide::RVar step, tail;
  int accumulators = 0;
  int blocked_rows = 0;
  Halide::Var row;
  bool top = false;
};

struct Reduction {
  std::vector<ReductionLevel> levels;  // the last is the top
  Halide::Func result;                 // arguments: vars
};

// Value `k` of a Func, which may be a tuple; and that value as a Func over `vars`.
Halide::Expr ValueAt(const Halide::Func& func, const std::vector<Halide::Expr>& at, size_t k);
Halide::Func ValueOf(const Halide::Func& func, const std::vector<Halide::Var>& vars, size_t k);

Reduction BuildReduction(const ReductionSpec& spec);

// The value of a reduction by the lane rule of at most `most` elements, as an expression of them:
// each has a lane of its own. Elements are asked for where there is one.
Halide::Expr ReduceFew(const ReductionSpec& spec, int most);

// Computes and keeps `func` for all `blocked_rows` rows from the first on that is asked for.
void BlockRows(Halide::Func& func, const Halide::Var& row, int blocked_rows);

// Lane rule: computes and folds the accumulators of a block at `at`, in registers where they fit.
void ScheduleLanes(ReductionLevel& level, const Halide::LoopLevel& at);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_REDUCTION_H_
