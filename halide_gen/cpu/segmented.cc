// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels whose rows are run in pieces, see schedule/index_split.h. A row is made
// piece by piece, so that its lines come and go once; in each piece the guards are decided.
#include <algorithm>

#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/segments.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::RDom;
using Halide::select;
using Halide::TailStrategy;
using Halide::Var;

// What `of` is for each of `count` pieces, for the piece `number`: decided once the loop over
// pieces is unrolled.
template <typename Of>
Expr OfPiece(const Expr& number, size_t count, Of&& of) {
  Expr chosen = of(count - 1);
  for (size_t piece = count - 1; piece-- > 0;)
    chosen = select(number == static_cast<int32_t>(piece), of(piece), chosen);
  return chosen;
}

}  // namespace

std::vector<OutputNest> BuildSegmented(const Kernel& kernel, const Schedule& schedule,
                                       const Operands& operands) {
  const auto& segmented = schedule.As<Segmented>();
  const Var x("px"), row("prow"), task("ptask"), inside("pinside");
  const auto guard = TailStrategy::GuardWithIf;
  const int lanes = static_cast<int>(segmented.step);
  const int64_t grain = segmented.task;
  const bool rows = kernel.num_iterated() > 1;
  const Expr length = operands.extents[static_cast<size_t>(kernel.innermost())];
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  const std::vector<Expr> edges = EdgesOf(cuts, operands, length);
  const size_t pieces = cuts.size() + 1;
  Expr longest = 0;
  for (size_t i = 0; i < pieces; ++i) longest = Halide::max(longest, edges[i + 1] - edges[i]);
  const Expr vectors = (longest + (lanes - 1)) / lanes;
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    const std::vector<Var> vars = rows ? std::vector<Var>{x, row} : std::vector<Var>{x};
    Halide::Func out = UndefinedOutputs(kernel, group, vars);
    SetDense(out, rows ? std::vector<Expr>{length, RowCount(kernel, operands)}
                       : std::vector<Expr>{length});
    RDom along(0, lanes, 0, vectors, 0, static_cast<int>(pieces), "pieces");
    const Halide::RVar lane = along.x, vector = along.y, piece = along.z;
    const Expr step = vector * lanes + lane;
    std::vector<std::vector<Expr>> values;  // of pieces
    for (size_t i = 0; i < pieces; ++i) {
      const Kernel decided = Between(kernel, cuts, i);
      const ExprEmitter emitter(decided, operands);
      Scope scope = RowScope(decided, operands, rows ? Expr(row) : Expr(), edges[i] + step);
      values.push_back(OutputValues(decided, group, emitter, scope));
    }
    const Expr size = OfPiece(piece, pieces, [&](size_t i) { return edges[i + 1] - edges[i]; });
    along.where(vector * lanes < size);
    along.where(Halide::likely(step < size));
    std::vector<Expr> at = {OfPiece(piece, pieces, [&](size_t i) { return edges[i]; }) + step};
    if (rows) at.push_back(row);
    std::vector<Expr> made;
    for (size_t k = 0; k < group.size(); ++k)
      made.push_back(OfPiece(piece, pieces, [&](size_t i) { return values[i][k]; }));
    SetValues(out, at, made);
    Halide::Stage update = out.update();
    update.allow_race_conditions().vectorize(lane);  // pieces do not overlap
    if (rows) {
      const Expr per_task = PerTask(grain, length, RowCount(kernel, operands));
      update.reorder(lane, vector, piece, row).split(row, task, inside, per_task, guard);
      update.parallel(task);
    } else {
      const Halide::RVar chunk("pchunk"), in_chunk("pinchunk");
      update.split(vector, chunk, in_chunk, PerTask(grain, lanes, vectors), guard);
      update.parallel(chunk);
    }
    update.unroll(piece).never_partition_all();
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
