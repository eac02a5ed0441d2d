// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels of short rows that inputs have in another order than the outputs, or only one
// of for several: a loop for each dim, so that no row takes divisions to find.
//
// Where the rows of an input follow each other along another dim ("order") than those of outputs,
// blocks of a few rows of the outputs are made for one step along it after the other, so that what
// is read and what is written runs in few streams. If there are few steps, blocks are single rows:
// then reads run in one. Example: out0[a, b, c, x] of in0[a, c, b, x]:
//   for a, for blocks of c, for b, for c in the block: a row
#include "kiln/halide_gen/nests.h"
#include "kiln/halide_gen/primitives.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

std::vector<OutputNest> OrderedNests(const Kernel& kernel, const Params& params,
                                     const Operands& operands) {
  constexpr int kBlock = 256;  // elements
  constexpr int kFewSteps = 16;
  const auto guard = TailStrategy::GuardWithIf;
  const auto inner = static_cast<size_t>(kernel.innermost());
  const auto order = static_cast<size_t>(params.Get("order", 0));
  const auto lanes = static_cast<int>(params.Get("lanes", 16));
  const int64_t grain = params.Get("grain", 1 << 15);
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    ExprEmitter emitter(kernel, operands);
    std::vector<Var> vars;  // outermost first
    for (size_t d = 0; d <= inner; ++d) vars.emplace_back("pdim" + std::to_string(d) + "v");
    Scope scope;
    scope.coordinates.assign(vars.begin(), vars.end());
    scope.coordinates.resize(kernel.dims.size());
    Func out = DefineOutputs(kernel, group, {vars.rbegin(), vars.rend()}, emitter, scope);
    std::vector<Expr> extents;
    for (size_t d = inner + 1; d-- > 0;) extents.push_back(operands.extents[d]);
    SetDense(out, extents);

    const Var x = vars[inner], row = vars[inner - 1];
    const Var block("pblock"), in_block("pinblock"), task("ptask"), inside("pinside");
    const Expr length = extents[0];
    const bool moved = order + 1 != inner;
    const Expr steps = operands.extents[order];
    Expr rows = Halide::max(1, kBlock / Halide::max(1, length));
    if (moved) rows = select(steps <= kFewSteps, 1, rows);
    out.split(row, block, in_block, rows, guard);
    std::vector<Halide::VarOrRVar> loops = {x, in_block};
    Expr each = rows * length, count = (extents[1] + rows - 1) / rows;
    if (moved) {
      loops.emplace_back(vars[order]);
      each = each * steps;
    }
    std::vector<Expr> counts(operands.extents);
    if (!moved && inner > 1) {  // where few rows follow each other, a block has several times those
      const Var in_outer("pinouter");
      const Expr times = Halide::max(1, kBlock / Halide::max(1, length * extents[1]));
      Var& outer = vars[inner - 2];
      const Var outer_block("pouterblock");
      out.split(outer, outer_block, in_outer, times, guard);
      outer = outer_block;
      loops.emplace_back(in_outer);
      each = each * times;
      counts[inner - 2] = (counts[inner - 2] + times - 1) / times;
    }
    loops.emplace_back(block);
    out.reorder(loops);
    Var all = block;
    for (size_t d = inner - 1; d-- > 0;) {
      if (d == order) continue;
      const Var fused("pfused" + std::to_string(d) + "v");
      out.fuse(all, vars[d], fused);
      all = fused;
      count = count * counts[d];
    }
    out.split(all, task, inside, PerTask(grain, each, count), guard).parallel(task);
    out.never_partition_all();
    Halide::Stage whole = out.specialize(0 < length && length <= lanes);
    whole.vectorize(x, lanes, guard);
    out.vectorize(x, lanes, guard);
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
