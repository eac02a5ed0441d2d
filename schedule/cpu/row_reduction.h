// SPDX-License-Identifier: Apache-2.0
// Reductions over the innermost dim, or the last few, with maps before, between and after; softmax
// and layer norm are such. A row passes through all stages while it is in the cache.
//
// Short rows go through each stage several at a time: `batch` of them, one after the other, or
// `folded` together, so that the last steps of their trees share vectors.
//
// Example: `row_reduction step=32 task=8192 levels=1 folded=16 accumulators=32 stored=1`
#ifndef KILN_SCHEDULE_CPU_ROW_REDUCTION_H_
#define KILN_SCHEDULE_CPU_ROW_REDUCTION_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct RowReduction : FieldsOf<RowReduction> {
  int64_t step = 16;                    // elements of a vector loop step
  int64_t task = 1 << 15;               // elements of work in a task, about
  int64_t levels = 1;                   // of the lane tree
  int64_t folded = 0;                   // rows whose trees fold in shared vectors
  int64_t batch = 1;                    // rows that take a stage together
  int64_t accumulators = kReduceLanes;  // of the lane rule that rows reach
  int64_t dims = 1;                     // innermost dims that make a row
  std::vector<int64_t> expanded;        // inputs whose broadcast is expanded once
  std::vector<int64_t> stored;          // maps whose values are stored, not computed anew

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Bound("levels", levels, {1, 4});
    fields.Int("folded", folded, {0, kMostFolded});
    fields.Int("batch", batch, {1, kMostBatch});
    fields.Bound("accumulators", accumulators, {2, kReduceLanes});
    fields.Dims("dims", dims, /*all=*/true);
    fields.List("expanded", expanded, kOperandRange);
    fields.List("stored", stored, kStageRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.nests = dims > 1 ? LoopSummary::Nests::kTiles : LoopSummary::Nests::kRows,
            .step = step,
            .columns = step,
            .row_dims = dims,
            .folds_together = folded > 0,
            .batch = batch,
            .one_row_at_a_time = dims == 1 && folded == 0,
            .stored = AsFlags(stored, kernel.stages.size()),
            .expanded = AsFlags(expanded, kernel.inputs.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step,
            .columns = step,
            .task = task,
            .row_step = dims > 1 ? 1 : step,
            .in_place = {}};
  }
};
extern const Template kRowReduction;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_ROW_REDUCTION_H_
