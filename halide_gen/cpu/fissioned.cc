// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/loop_fission.h says what links are, schedule/cpu/pointwise.cc decides, this does.
#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/tables.h"
#include "schedule/cpu/loop_fission.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

std::vector<OutputNest> BuildFissioned(const Kernel& kernel, const Schedule& schedule,
                                       const Operands& operands) {
  const auto& fissioned = schedule.As<Fissioned>();
  const Var x("px"), row("prow"), strip("pstrip"), lane("plane"), task("ptask"), inside("pinside");
  const int lanes = static_cast<int>(fissioned.step), flat = static_cast<int>(fissioned.collapsed);
  const int64_t grain = fissioned.task;
  const bool rows = kernel.num_iterated() > flat;
  const FlatLoops loops = LoopsOfFlat(kernel, flat, operands, x, row);
  const Expr& length = loops.extents[0];
  const std::vector<Var> vars = rows ? std::vector<Var>{x, row} : std::vector<Var>{x};
  const auto scope_at_x = [&] {
    return FlatScope(kernel, {flat, lanes}, operands, rows ? Expr(row) : Expr(), x);
  };

  ExprEmitter emitter(kernel, operands);
  UseTables(kernel, fissioned.expanded, operands, kernel.innermost(), lanes, emitter);
  std::vector<Func> links;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    Scope scope = scope_at_x();  // whole vectors are made: the last may reach behind the row
    scope.lane = x;
    scope.inside = x < length;
    const Stage& stage = kernel.stages[i];
    links.emplace_back("s" + std::to_string(i));
    links.back()(vars) = ToStorage(emitter.Value(stage.expr, scope), stage.type);
    emitter.Store(static_cast<int32_t>(i), links.back());
  }
  Scope scope = scope_at_x();
  Func out = DefineOutputs(kernel, {0}, loops.vars, emitter, scope);
  const auto guard = TailStrategy::GuardWithIf;
  out.split(x, strip, lane, kStrip, guard);
  SetDense(out, loops.extents);
  if (rows) {
    const Expr& count = loops.extents.back();
    out.split(row, task, inside, PerTask(grain, length, count), guard);
  } else {
    out.split(strip, task, inside, PerTask(grain, kStrip, length / kStrip), guard);
  }
  Vectors(out, lane, lanes);
  out.parallel(task).never_partition_all();
  for (Func& link : links) {
    link.compute_at(out, rows ? strip : inside)
        .store_in(Halide::MemoryType::Stack)
        .bound_storage(x, kStrip)
        .vectorize(x, lanes, TailStrategy::RoundUp)
        .never_partition(x);
  }
  return {{out, {0}}};
}

}  // namespace kiln
