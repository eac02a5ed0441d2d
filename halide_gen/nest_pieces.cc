// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels whose rows are run in pieces, see schedule/cuts.h: an update per piece, in
// which the guards are decided.
#include <algorithm>

#include "kiln/halide_gen/nests.h"
#include "kiln/schedule/cuts.h"

namespace kiln {
namespace {

using Halide::clamp;
using Halide::Expr;
using Halide::RDom;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;

Expr AtCut(const IndexExpr& cut, const Operands& operands) {
  Expr sum = static_cast<int32_t>(cut.offset);
  for (const IndexExpr::Term& term : cut.terms) {
    sum = sum + operands.extents[static_cast<size_t>(term.dim)] * static_cast<int32_t>(term.coef);
  }
  return sum;
}

}  // namespace

std::vector<OutputNest> PieceNests(const Kernel& kernel, const Params& params,
                                   const Operands& operands) {
  const Var x("px"), row("prow"), task("ptask"), inside("pinside");
  const auto guard = TailStrategy::GuardWithIf;
  const int lanes = static_cast<int>(params.Get("lanes", 16));
  const int64_t grain = params.Get("grain", 1 << 15);
  const bool rows = kernel.num_iterated() > 1;
  const Expr length = operands.extents[static_cast<size_t>(kernel.innermost())];
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    Halide::Func out =
        UndefinedOutputs(kernel, group, rows ? std::vector<Var>{x, row} : std::vector<Var>{x});
    SetDense(out, rows ? std::vector<Expr>{length, RowCount(kernel, operands)}
                       : std::vector<Expr>{length});
    Expr begin = 0;
    for (size_t piece = 0; piece <= cuts.size(); ++piece) {
      const Expr end =
          piece == cuts.size() ? length : clamp(AtCut(cuts[piece], operands), begin, length);
      const RDom along(begin, end - begin, "piece" + std::to_string(piece));
      const Kernel decided = Between(kernel, cuts, piece);
      const ExprEmitter emitter(decided, operands);
      Scope scope = RowScope(decided, operands, rows ? Expr(row) : Expr(), along.x);
      std::vector<Expr> at = {along.x};
      if (rows) at.push_back(row);
      SetValues(out, at, OutputValues(decided, group, emitter, scope));
      Halide::Stage update = out.update(static_cast<int>(piece));
      const RVar vector("pvector"), lane("plane"), chunk("pchunk"), in_chunk("pinchunk");
      update.split(along.x, vector, lane, lanes, guard).vectorize(lane);
      if (rows) {
        update.reorder(lane, vector, row);
        const Expr per_task = PerTask(grain, length, RowCount(kernel, operands));
        update.split(row, task, inside, per_task, guard).parallel(task);
      } else {
        const Expr per_task = PerTask(grain, lanes, (end - begin) / lanes);
        update.split(vector, chunk, in_chunk, per_task, guard).parallel(chunk);
      }
      begin = end;
    }
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
