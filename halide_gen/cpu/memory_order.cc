// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels of short rows that inputs have in another order than the outputs, or only one
// of for several, or that consist of pieces, which share vectors (segments.h): a loop for each dim,
// so that no row takes divisions to find.
//
// Where the rows of an input follow each other along another dim ("order") than those of outputs,
// blocks of a few rows of the outputs are made for one step along it after the other, so that what
// is read and what is written runs in few streams. If there are few steps, they are made row by row
// in a block: then reads run in one. Example: out0[a, b, c, x] of in0[a, c, b, x]:
//   for a, for blocks of c, for b, for c in the block: a row
//   for a, for blocks of c, for c in the block, for b: a row    (few b)
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/segments.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

std::vector<OutputNest> BuildMemoryOrder(const Kernel& kernel, const Schedule& schedule,
                                         const Operands& operands) {
  const auto& permuted = schedule.As<MemoryOrder>();
  constexpr int kBlock = 256;    // speed: elements
  constexpr int kFewSteps = 16;  // speed
  const auto guard = TailStrategy::GuardWithIf;
  const auto inner = static_cast<size_t>(kernel.innermost());
  const auto order = static_cast<size_t>(permuted.order);
  const auto lanes = static_cast<int>(permuted.step);
  const int64_t grain = permuted.task;
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    std::vector<Var> vars;  // outermost first
    for (size_t d = 0; d <= inner; ++d) vars.emplace_back("pdim" + std::to_string(d) + "v");
    Func out("out" + std::to_string(group[0]));
    SetValues(out, {vars.rbegin(), vars.rend()}, BlendedPieces(kernel, operands, group, vars));
    const auto first = operands.extents.begin();
    SetDense(out, {std::make_reverse_iterator(first + kernel.num_iterated()),
                   std::make_reverse_iterator(first)});
    const Var x = vars[inner], row = vars[inner - 1];
    const Var block("pblock"), in_block("pinblock"), task("ptask"), inside("pinside");
    const Expr &length = operands.extents[inner], &above = operands.extents[inner - 1];
    const bool moved = order + 1 != inner;
    const Expr steps = operands.extents[order];
    Expr rows = Halide::max(1, kBlock / Halide::max(1, length));
    const Expr few = moved ? steps <= kFewSteps : Halide::Internal::const_false();
    if (moved) rows = select(few, Halide::max(1, rows / Halide::max(1, steps)), rows);
    out.split(row, block, in_block, rows, guard);
    std::vector<Halide::VarOrRVar> loops = {x, in_block};
    Expr each = rows * length, count = (above + rows - 1) / rows;
    if (moved) {
      const Var run("prun");
      out.split(in_block, run, in_block, select(few, 1, rows), guard);
      loops.insert(loops.end(), {vars[order], run});
      each = each * steps;
    }
    std::vector<Expr> counts(operands.extents);
    if (!moved && inner > 1) {  // where few rows follow each other, a block has several times those
      const Var in_outer("pinouter");
      const Expr times = Halide::max(1, kBlock / Halide::max(1, length * above));
      const Var outer_block("pouterblock");
      out.split(vars[inner - 2], outer_block, in_outer, times, guard);
      vars[inner - 2] = outer_block;
      loops.emplace_back(in_outer);
      each = each * times;
      counts[inner - 2] = (counts[inner - 2] + times - 1) / times;
    }
    loops.emplace_back(block);
    out.reorder(loops);
    std::vector<Var> outer = {block};
    for (size_t d = inner - 1; d-- > 0;) {
      if (d == order) continue;
      outer.push_back(vars[d]);
      count = count * counts[d];
    }
    out.split(Fused(out, outer), task, inside, PerTask(grain, each, count), guard).parallel(task);
    out.never_partition_all();
    Halide::Stage whole = out.specialize(0 < length && length <= lanes);
    whole.vectorize(x, lanes, guard);
    out.vectorize(x, lanes, guard);
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
