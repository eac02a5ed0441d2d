// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/nests.h"

#include <algorithm>
#include <set>

#include "halide_gen/common/primitives.h"
#include "schedule/analysis.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

namespace {

// Adds the stages over `dims` that `expr` reads and that stand on a reduction.
void AddReduced(const Kernel& kernel, const ScalarExpr& expr, const std::vector<int32_t>& dims,
                std::set<size_t>& stages) {
  for (const ExprNode& node : expr.nodes()) {
    if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
    const auto ref = static_cast<size_t>(node.ref);
    const Stage& stage = kernel.stages[ref];
    std::set<size_t> below;
    if (stage.kind == Stage::Kind::kMap) AddReduced(kernel, stage.expr, dims, below);
    const bool stands = stage.kind == Stage::Kind::kReduce || !below.empty();
    if (stands && stage.dims == dims) below = {ref};
    stages.insert(below.begin(), below.end());
  }
}

}  // namespace

Scope FlatScope(const Kernel& kernel, const CollapsedDims& collapsed, const Operands& operands,
                const Expr& row, const Expr& x) {
  const auto [flat, lanes] = collapsed;
  if (flat == 1) return RowScope(kernel, operands, row, x);
  Scope scope;
  scope.coordinates.resize(kernel.dims.size());
  const int first = kernel.num_iterated() - flat;
  if (row.defined()) SetCoordinates(operands, row, 0, first, scope);
  SetCoordinates(operands, x, first, kernel.num_iterated(), scope);
  scope.flat = flat;
  scope.tail = x;
  const Expr length = TailLength(kernel, operands, flat);
  scope.start = row.defined() ? row * length + x / lanes * lanes : x / lanes * lanes;
  scope.step = x % lanes;
  scope.place = row.defined() ? row * length + x : x;
  scope.row_arguments = {x};
  if (row.defined()) scope.row_arguments.push_back(row);
  return scope;
}

FlatLoops LoopsOfFlat(const Kernel& kernel, int collapsed, const Operands& operands, const Var& x,
                      const Var& row) {
  FlatLoops loops = {{x}, {TailLength(kernel, operands, collapsed)}};
  if (kernel.num_iterated() == collapsed) return loops;
  for (int k = 1; k < collapsed; ++k) {
    loops.vars.emplace_back("pone" + std::to_string(k));
    loops.extents.emplace_back(1);
  }
  loops.vars.push_back(row);
  loops.extents.push_back(RowCount(kernel, operands, collapsed));
  return loops;
}

std::vector<size_t> SharedStages(const Kernel& kernel,
                                 const std::vector<std::vector<size_t>>& groups,
                                 const std::vector<int32_t>& dims) {
  std::set<size_t> shared;
  int readers = 0;
  for (const std::vector<size_t>& group : groups) {
    std::set<size_t> read;
    for (const size_t output : group) AddReduced(kernel, kernel.outputs[output].expr, dims, read);
    readers += read.empty() ? 0 : 1;
    shared.merge(read);
  }
  if (readers < 2) return {};
  return {shared.begin(), shared.end()};
}

Expr PerTask(int64_t grain, const Expr& each, const Expr& count) {
  constexpr int kParts = 8, kFew = 16;  // speed
  const Expr whole = Halide::max(1, static_cast<int32_t>(grain) / Halide::max(1, each));
  if (!count.defined()) return whole;
  const Expr is_few = count > whole && count < kFew * whole;
  return Halide::select(is_few, Halide::max(1, whole / kParts), whole);
}

Expr RowsPerBlock(const Expr& length, int most) {
  constexpr int kShortRows = 4;  // speed
  return Halide::clamp(static_cast<int>(kShortRows * kShortRow) / Halide::max(1, length), 1, most);
}

BlockLoops BlocksOf(const Expr& rows, const Expr& length, int64_t grain) {
  constexpr auto kRows = static_cast<int>(kOuterReduceBlock);
  BlockLoops loops;
  loops.blocks = (rows + (kRows - 1)) / kRows;
  loops.per_task = PerTask(grain, length * kRows, loops.blocks);
  return loops;
}

void Vectors(Func& func, const Var& x, int lanes) {
  func.vectorize(x, lanes, Halide::TailStrategy::GuardWithIf).never_partition(x);
}

void CutRow(Func& func, const Var& x, int lanes, int64_t grain, const Expr& extent) {
  const Var vector("pvector"), lane("plane"), task("ptask"), inside("pinside");
  const auto guard = Halide::TailStrategy::GuardWithIf;
  func.split(x, vector, lane, lanes, guard).vectorize(lane);
  func.split(vector, task, inside, PerTask(grain, lanes, extent / lanes), guard)
      .parallel(task)
      .never_partition_all();
}

}  // namespace kiln
