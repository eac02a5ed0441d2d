// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/pointwise.cc decides, this does.
#include <algorithm>

#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/tables.h"
#include "schedule/analysis.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

namespace {

// Stages that are the same along a row and worth it are computed once a row: Halide leaves loads in
// the loop along the row, and what is made of them.
std::vector<Func> StoreRowStages(const Kernel& kernel, const Operands& operands, const Var& row,
                                 ExprEmitter& emitter) {
  std::vector<Func> stored;
  if (!StagesReadInPlace(kernel)) return stored;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    const bool along = std::count(stage.dims.begin(), stage.dims.end(), kernel.innermost()) > 0;
    if (along || stage.dims.empty() || Cost(stage.expr) < kLeastOfRow) continue;
    Scope scope = RowScope(kernel, operands, row, Expr());
    stored.emplace_back("s" + std::to_string(i));
    stored.back()(row) = ToStorage(emitter.Value(stage.expr, scope), stage.type);
    emitter.Store(static_cast<int32_t>(i), stored.back());
  }
  return stored;
}

// Likewise what a launch has one of is computed before all loops.
void StoreLaunchStages(const Kernel& kernel, ExprEmitter& emitter) {
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    if (!stage.dims.empty() || Cost(stage.expr) < kLeastOfRow) continue;
    Scope scope;
    scope.coordinates.resize(kernel.dims.size());
    Func once("s" + std::to_string(i));
    once() = ToStorage(emitter.Value(stage.expr, scope), stage.type);
    once.compute_root();
    emitter.Store(static_cast<int32_t>(i), once);
  }
}

}  // namespace

std::vector<OutputNest> BuildPointwise(const Kernel& kernel, const Schedule& schedule,
                                       const Operands& operands) {
  const auto& pointwise = schedule.As<Pointwise>();
  const Var x("px"), row("prow"), task("ptask"), inside("pinside");
  const int lanes = static_cast<int>(pointwise.step), flat = static_cast<int>(pointwise.collapsed);
  const int64_t grain = pointwise.task;
  const bool rows = kernel.num_iterated() > flat;
  const FlatLoops loops = LoopsOfFlat(kernel, flat, operands, x, row);
  const Expr& length = loops.extents[0];
  std::vector<OutputNest> nests;
  for (std::vector<size_t>& group : GroupOutputs(kernel)) {
    ExprEmitter emitter(kernel, operands);
    std::vector<Func> of_row;
    StoreLaunchStages(kernel, emitter);
    UseTables(kernel, pointwise.expanded, operands, kernel.innermost(), lanes, emitter);
    if (rows && flat == 1) of_row = StoreRowStages(kernel, operands, row, emitter);
    Scope scope = FlatScope(kernel, {flat, lanes}, operands, rows ? Expr(row) : Expr(), x);
    Func out = DefineOutputs(kernel, group, loops.vars, emitter, scope);
    SetDense(out, loops.extents);
    if (rows) {
      const Expr count = loops.extents.back();
      out.split(row, task, inside, PerTask(grain, length, count), TailStrategy::GuardWithIf)
          .parallel(task);
      for (Func& func : of_row) func.compute_at(out, inside);
      Vectors(out, x, lanes);
    } else {
      CutRow(out, x, lanes, grain, length);
    }
    nests.push_back({out, std::move(group)});
  }
  return nests;
}

}  // namespace kiln
