// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/scatter.cc decides, this does.
#include <algorithm>
#include <string>
#include <utility>

#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cpu/nests.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
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
  const KernelOutput& output = kernel.outputs[0];
  const bool rows = AddsRows(kernel);
  const Expr row = rows ? operands.extents[static_cast<size_t>(kernel.innermost())] : Expr(1);
  const Expr count = ExtentOf(operands, 0, kernel.num_iterated() - (rows ? 1 : 0));
  const size_t divided = DividedAxis(kernel);
  const Expr extent = operands.extents[static_cast<size_t>(output.dims[divided])];
  const Expr wanted = Halide::clamp(count / PerTask(scatter.task, row), 1, kMostTasks);
  const bool divides = !HasOnePlace(kernel);
  const Expr shared = Halide::clamp(extent, 1, wanted);
  const Expr tasks =
      divides ? Halide::select(row < static_cast<int>(scatter.shared), 1, shared) : Expr(1);
  const Expr each = (extent + (tasks - 1)) / tasks;
  const Var x("px");
  RDom places({{0, count}, {0, tasks}}, "pplaces");
  const RVar at = places[0], task = places[1];
  AddedElement added = ElementToAdd(kernel, operands, at, x);

  Func out("out0");
  std::vector<Var> vars;
  std::vector<Expr> extents;
  for (size_t axis = output.dims.size(); axis-- > 0;) {
    vars.push_back(rows && vars.empty() ? x : Var("paxis" + std::to_string(axis)));
    extents.push_back(operands.extents[static_cast<size_t>(output.dims[axis])]);
  }
  out(vars) = Halide::cast(StorageType(output.type), 0);
  Expr& place = added.places[output.dims.size() - 1 - divided];
  // Halide takes what it loads of an output at element 0 for aligned, which no output need be: so
  // it must not see that a place is 0.
  if (divides) {
    places.where(place >= task * each && place < (task + 1) * each);
  } else {
    place = Halide::clamp(Opaque(place), 0, extent - 1);
  }
  out(added.places) = out(added.places) + added.value;
  SetDense(out, extents);
  ScheduleZeros(out, vars, extents, scatter.task);
  Halide::Stage update = out.update();
  if (rows) {
    update.reorder(x, at, task);
    update.vectorize(x, static_cast<int>(scatter.step), TailStrategy::GuardWithIf);
  }
  update.allow_race_conditions().parallel(task);  // no element belongs to two tasks
  return {{out, {0}}};
}

}  // namespace kiln
