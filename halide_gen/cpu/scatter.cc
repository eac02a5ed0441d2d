// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/scatter.cc decides, this does.
#include <vector>

#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/common/ordered_sums.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;

constexpr int kMostTasks = 64;  // speed: each looks through all places
constexpr int kZeros = 16;      // speed: elements that are cleared at once

// Clears the output, in vectors and tasks.
void ScheduleZeros(Func& out, const std::vector<Var>& vars, const std::vector<Expr>& extents,
                   int64_t grain) {
  if (vars.size() == 1) return CutRow(out, vars[0], kZeros, grain, extents[0]);
  const Var rows = Fused(out, {vars.begin() + 1, vars.end()}), task("ptask"), inside("pinside");
  Expr count = extents[1];
  for (size_t k = 2; k < extents.size(); ++k) count = count * extents[k];
  out.split(rows, task, inside, PerTask(grain, extents[0], count), TailStrategy::GuardWithIf)
      .parallel(task);
  Vectors(out, vars[0], kZeros);
}

}  // namespace

std::vector<OutputNest> BuildScatter(const Kernel& kernel, const Schedule& schedule,
                                     const Operands& operands) {
  const auto& scatter = schedule.As<Scatter>();
  const bool rows = AddsRows(kernel), divides = !HasOnePlace(kernel);
  const Expr row = rows ? operands.extents[static_cast<size_t>(kernel.innermost())] : Expr(1);
  const Expr wanted =
      Halide::clamp(CountOfAdded(kernel, operands) / PerTask(scatter.task, row), 1, kMostTasks);
  const Expr extent = DividedExtent(kernel, operands), shared = Halide::clamp(extent, 1, wanted);
  const Expr tasks =
      divides ? Halide::select(row < static_cast<int>(scatter.shared), 1, shared) : Expr(1);
  const Var x("px");
  AddedElements added = ElementsToAdd(kernel, operands, x, tasks);
  // Halide takes what it loads of an output at element 0 for aligned, which no output need be: so
  // it must not see that a place is 0.
  Expr& place = added.where[added.divided];
  if (!divides) place = Halide::clamp(Opaque(place), 0, extent - 1);

  Func out("out0");
  const OutputAxes axes = AxesOfSums(kernel, operands, x);
  out(axes.vars) = Halide::cast(StorageType(kernel.outputs[0].type), 0);
  out(added.where) = out(added.where) + added.value;
  SetDense(out, axes.extents);
  ScheduleZeros(out, axes.vars, axes.extents, scatter.task);
  Halide::Stage update = out.update();
  const RVar at = added.places[0], task = added.places[1];
  if (rows) {
    update.reorder(x, at, task);
    update.vectorize(x, static_cast<int>(scatter.step), TailStrategy::GuardWithIf);
  }
  update.allow_race_conditions().parallel(task);  // no element belongs to two tasks
  return {{out, {0}}};
}

}  // namespace kiln
