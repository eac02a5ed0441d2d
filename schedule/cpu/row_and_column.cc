// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/row_and_column.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"
#include "schedule/cpu/full_unroll.h"
#include "schedule/cpu/outer_vectorized.h"
#include "schedule/cpu/row_column_parts.h"
#include "schedule/cpu/row_reduction.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

// No if `columns` has reductions but those over the outer dim of what is there before any.
Decision ReducesOnlyDown(const Kernel& columns) {
  std::vector<bool> reduced;  // stages that need a reduction
  for (const Stage& stage : columns.stages) {
    const bool after = std::any_of(
        stage.expr.nodes().begin(), stage.expr.nodes().end(), [&](const ExprNode& node) {
          return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
                 reduced[static_cast<size_t>(node.ref)];
        });
    if (IsReduction(stage) && (after || stage.over != std::vector<int32_t>{0}))
      return Decision::No("what is no row needs other reductions than over the outer dim");
    reduced.push_back(after || IsReduction(stage));
  }
  return Decision::Yes();
}

}  // namespace

Decision AcceptsRowAndColumn(const Kernel& kernel) {
  if (kernel.num_iterated() != 2) return Decision::No("it is not over two dims");
  if (const Decision in_place = StagesReadInPlace(kernel); !in_place) return in_place;
  const Halves halves = HalvesOf(kernel);
  if (halves.rows.outputs.empty()) return Decision::No("no output is over all dims");
  if (halves.columns.outputs.empty()) return Decision::No("all outputs are over all dims");
  for (const KernelOutput& output : halves.columns.kernel.outputs) {
    if (output.dims != std::vector<int32_t>{1} || output.layout != Layout::kDense)
      return Decision::No("an output is neither over all dims nor dense over the innermost");
  }
  if (const Decision rows = AcceptsRows(halves.rows.kernel); !rows) return rows;
  return ReducesOnlyDown(halves.columns.kernel);
}

namespace {

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const Halves halves = HalvesOf(kernel);
  const int64_t outer = std::min<int64_t>(sizes.at_most[0], INT32_MAX), row = sizes.at_most[1];
  RowAndColumn both;
  both.outer_levels = LevelsFor(outer, kOuterReduceBlock);
  std::vector<Schedule> candidates;
  for (const Template* of : {&kRowReduction, &kOuterVectorized, &kFullUnroll}) {
    if (!of->Accepts(halves.rows.kernel)) continue;
    for (Schedule& rows : of->candidates(halves.rows.kernel, sizes, machine)) {
      rows.in_place.clear();  // reductions read the inputs when rows are written
      both.rows = rows;
      both.outer_step = LanesForRow(LanesFor(halves.columns.kernel, machine, kMostVectors), row);
      both.one_vector = row <= both.outer_step;
      // Blocks of rows that fuse take each stage one row after the other, or fold.
      both.fused =
          of == &kRowReduction && outer > kOuterReduceBlock && rows.As<RowReduction>().batch == 1;
      candidates.emplace_back(kRowAndColumn, both);
      // A block of rows is near, so that sums may go down it in registers.
      if (!both.fused || both.one_vector) continue;
      both.one_vector = true;
      candidates.emplace_back(kRowAndColumn, both);
    }
  }
  return candidates;
}

}  // namespace

absl::Status RowAndColumn::CheckFor(const Kernel& kernel) const {
  if (fused && !rows.Is(kRowReduction)) {
    return absl::InvalidArgumentError(absl::StrCat("schedule: \"fused\" is 1 with rows=(",
                                                   rows.ToString(),
                                                   "); only row_reduction rows fuse"));
  }
  return rows.CheckFor(HalvesOf(kernel).rows.kernel);
}

// Those of the rows, in the numbering of the whole kernel, and of sums.
LoopSummary RowAndColumn::Loops(const Kernel& kernel) const {
  const Halves halves = HalvesOf(kernel);
  LoopSummary loops = rows.Loops(halves.rows.kernel);
  std::vector<bool> stored(kernel.stages.size());
  for (size_t i = 0; i < loops.stored.size(); ++i) stored[halves.rows.stages[i]] = loops.stored[i];
  loops.stored = std::move(stored);
  loops.columns = outer_step;
  loops.sums_in_cache = !one_vector;
  loops.rows_in_cache = true;
  loops.joins = true;
  return loops;
}

const Template kRowAndColumn = {"row_and_column", "rows, and reductions down the same rows",
                                AcceptsRowAndColumn, Candidates, Make<RowAndColumn>};

}  // namespace kiln
