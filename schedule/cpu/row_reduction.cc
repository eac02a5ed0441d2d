// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/row_reduction.h"

#include <algorithm>
#include <optional>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

// Rows of one dim, or columns that lie in one piece.
Decision Accepts(const Kernel& kernel) {
  const Decision rows = AcceptsRows(kernel);
  return rows ? rows : AcceptsColumns(kernel);
}

// Bytes of an element of a row in all that holds a row of them.
int64_t BytesOfElement(const Kernel& kernel, const std::vector<bool>& kept) {
  size_t bytes = 0;
  for (const KernelInput& input : kernel.inputs)
    if (SpansAll(kernel, input.dims)) bytes += SizeOf(input.type);
  for (const KernelOutput& output : kernel.outputs)
    if (SpansAll(kernel, output.dims)) bytes += SizeOf(output.type);
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && SpansAll(kernel, kernel.stages[i].dims)) bytes += SizeOf(kernel.stages[i].type);
  return static_cast<int64_t>(bytes);
}

// Rows one by one; several one after the other where most of a row's time is its folds; and folded
// together while they lie in the nearest cache.
std::vector<Schedule> AlongRows(const Kernel& kernel, const SizeClass& sizes,
                                const Machine& machine) {
  const int32_t x = kernel.innermost();
  const int64_t row = std::min<int64_t>(sizes.at_most[static_cast<size_t>(x)], INT32_MAX);
  const std::vector<bool> kept = MapsOfRowsToMaterialise(kernel);
  RowReduction along;
  along.task = GrainFor(kernel, machine);
  along.levels = LevelsFor(row, kReduceBlock);
  along.accumulators = AccumulatorsFor(row);
  along.stored = Members(kept);
  along.expanded = GroupedBroadcasts(kernel, sizes);
  const bool near = row <= machine.l1_bytes &&
                    kMostFolded * row * BytesOfElement(kernel, kept) <= machine.l1_bytes;
  const bool folds = near && ElementsOf(sizes, 0, x - 1) >= 2 * kMostFolded;
  std::vector<Schedule> candidates;
  for (const int64_t step : StepsFor(kernel, machine, row)) {
    along.step = step;
    const auto add = [&](int64_t folded, int64_t batch) {
      along.folded = folded;
      along.batch = batch;
      Schedule schedule(kRowReduction, along);
      // Several outputs need not be written in one pass over the row.
      if (kernel.outputs.size() == 1) schedule.in_place = ElementwisePairs(kernel);
      candidates.push_back(std::move(schedule));
    };
    add(0, 1);
    if (row <= kShortRow) add(0, kMostBatch);
    if (folds) add(kMostFolded, 1);
  }
  return candidates;
}

// Where the reduced dims are the last, columns lie side by side like rows of several dims: then
// outputs run along all of them. Columns that fold together are read piece by piece.
std::vector<Schedule> AlongColumns(const Kernel& kernel, const SizeClass& sizes,
                                   const Machine& machine) {
  const Stage& reduction = FirstReduction(kernel);
  const auto dims = static_cast<int32_t>(reduction.over.size());
  const int32_t x = kernel.innermost(), first = x + 1 - dims;
  if (dims < 2 || reduction.over.front() != first) return {};
  const int64_t column =
      static_cast<int64_t>(SizeOf(reduction.type)) * ColumnElements(reduction, sizes);
  if (ElementsOf(sizes, 0, first - 1) < 2 * kMostFolded || kMostFolded * column > machine.l1_bytes)
    return {};
  const std::vector<bool> kept = MapsOfRowsToMaterialise(kernel);
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && kernel.stages[i].dims != reduction.dims) return {};
  auto expanded = BroadcastsToExpand(kernel, sizes, first, x);
  if (!expanded) return {};
  const int64_t inner = sizes.at_most[static_cast<size_t>(x)];
  RowReduction rows;
  rows.task = GrainFor(kernel, machine);
  rows.levels = LevelsFor(inner, kReduceBlock);
  rows.accumulators = AccumulatorsFor(inner);
  rows.dims = dims;
  rows.folded = kMostFolded;
  rows.expanded = *std::move(expanded);
  rows.stored = Members(kept);
  std::vector<Schedule> candidates;
  for (const int64_t step : StepsFor(kernel, machine, inner)) {
    rows.step = step;
    candidates.emplace_back(kRowReduction, rows);
  }
  return candidates;
}

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  return AcceptsRows(kernel) ? AlongRows(kernel, sizes, machine)
                             : AlongColumns(kernel, sizes, machine);
}

}  // namespace

const Template kRowReduction = {"row_reduction", "reductions over the last dims, row by row",
                                Accepts, Candidates, Make<RowReduction>};

}  // namespace kiln
