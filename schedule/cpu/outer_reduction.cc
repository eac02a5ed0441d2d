// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/outer_reduction.h"

#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

// True if some output over all dims needs what was reduced: elements meet their column again.
bool BroadcastsBack(const Kernel& kernel) {
  std::vector<bool> reduced;
  const auto needs = [&](const ScalarExpr& expr) {
    return std::any_of(expr.nodes().begin(), expr.nodes().end(), [&](const ExprNode& node) {
      return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
             reduced[static_cast<size_t>(node.ref)];
    });
  };
  for (const Stage& stage : kernel.stages)
    reduced.push_back(IsReduction(stage) || needs(stage.expr));
  return std::any_of(kernel.outputs.begin(), kernel.outputs.end(), [&](const KernelOutput& output) {
    return SpansAll(kernel, output.dims) && needs(output.expr);
  });
}

// One reduction that no element meets again.
bool IsSingle(const Kernel& kernel) {
  return std::count_if(kernel.stages.begin(), kernel.stages.end(), IsReduction) == 1 &&
         !BroadcastsBack(kernel);
}

int64_t Bounded(int64_t extent) { return std::min<int64_t>(extent, INT32_MAX); }

// Some numbers of vectors, of which `together` reductions leave registers, and a whole row of as
// many as there are accumulators.
std::vector<int64_t> TileSteps(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                               int64_t together) {
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  const int64_t vector = LanesFor(kernel, machine, 1);
  std::vector<int64_t> steps;
  const auto add = [&](int64_t step) {
    if (step <= kMostLanes && std::find(steps.begin(), steps.end(), step) == steps.end())
      steps.push_back(step);
  };
  for (const int64_t vectors : {4, 8, 2, 1}) {  // compile time: candidates
    if (vectors == 1 || 2 * vectors * together <= machine.registers)
      add(LanesForRow(LanesFor(kernel, machine, vectors), row));
  }
  if (row <= kMostLanes && IsSingle(kernel))
    add((std::max<int64_t>(1, row) + vector - 1) / vector * vector);
  return steps;
}

// Whose values are stored, if maps that several loops need are from `shared_cost` on.
std::vector<bool> MapsToStore(const Kernel& kernel, int64_t shared_cost) {
  const Stage& reduction = FirstReduction(kernel);
  std::vector<bool> kept =
      MapsToMaterialise(kernel, {.shared_cost = shared_cost, .single_cost = kWorthMaterialising});
  for (size_t i = 0; i < kept.size(); ++i) {
    // A value of a column costs nothing to keep.
    const Stage& stage = kernel.stages[i];
    const bool of_column = std::includes(reduction.dims.begin(), reduction.dims.end(),
                                         stage.dims.begin(), stage.dims.end());
    if (!IsReduction(stage) && of_column && Cost(stage.expr) >= kLeastOfRow) kept[i] = true;
  }
  return kept;
}

// Candidates that store the maps `kept`.
void AddCandidates(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                   const std::vector<bool>& kept, std::vector<Schedule>& candidates) {
  const Stage& reduction = FirstReduction(kernel);
  const int32_t x = kernel.innermost();
  int64_t inner = 1, outer = 1;  // greatest extents reduced by either rule
  for (const int32_t dim : reduction.over) {
    int64_t& extent = dim == x ? inner : outer;
    extent = std::max(extent, Bounded(sizes.at_most[static_cast<size_t>(dim)]));
  }
  const int64_t row = sizes.at_most[static_cast<size_t>(x)];
  OuterReduction columns;
  columns.task = GrainFor(kernel, machine);
  columns.levels = LevelsFor(inner, kReduceBlock);
  columns.outer_levels = LevelsFor(outer, kOuterReduceBlock);
  columns.stored = Members(kept);
  const auto add = [&] { candidates.emplace_back(kOuterReduction, columns); };
  if (reduction.over.back() != x) {
    for (const int64_t step : TileSteps(kernel, sizes, machine, LargestPass(kernel, kept))) {
      columns.step = step;
      columns.whole_row = row <= step && reduction.dims.size() > 1;
      add();
    }
    return;
  }
  columns.accumulators = AccumulatorsFor(inner);
  const bool whole_stored = [&] {
    for (size_t i = 0; i < kept.size(); ++i)
      if (kept[i] && SpansAll(kernel, kernel.stages[i].dims)) return true;
    return false;
  }();
  const bool batches =
      !whole_stored && !reduction.dims.empty() && ColumnElements(reduction, sizes) <= 2 * kShortRow;
  for (const int64_t step : StepsFor(kernel, machine, row)) {
    columns.step = std::min(step, kMostLanes);
    for (const int64_t batch : {int64_t{1}, batches ? kMostBatch : 0}) {
      for (const bool memory_order : {true, false}) {  // alike in price
        columns.batch = batch;
        columns.memory_order = memory_order;
        if (batch > 0 && (!memory_order || kernel.outputs.size() > 1)) add();
      }
    }
  }
}

// Nothing in place: the VM runs through such kernels row by row.
std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  if (AcceptsRows(kernel)) return {};  // row_reduction has the same loops for rows of one dim
  std::vector<Schedule> candidates;
  const std::vector<bool> cheap = MapsToStore(kernel, kWorthMaterialisingShared);
  const std::vector<bool> dear = MapsToStore(kernel, kWorthMaterialising);
  AddCandidates(kernel, sizes, machine, cheap, candidates);
  if (dear != cheap) AddCandidates(kernel, sizes, machine, dear, candidates);
  return candidates;
}

}  // namespace

const Template kOuterReduction = {"outer_reduction", "reductions over the same dims, tile by tile",
                                  AcceptsColumns, Candidates, Make<OuterReduction>};

}  // namespace kiln
