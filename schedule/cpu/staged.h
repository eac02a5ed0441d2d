// SPDX-License-Identifier: Apache-2.0
// Whatever the grammar can say: each reduction, each stored map and each output is a loop nest of
// its own that computes all its values. Dims that no reduction over all dims takes may be collapsed
// into one loop (`collapsed`): then reductions go over whole rows.
//
// Example: `staged step=16 task=32768 levels=1 outer_step=32 outer_levels=2`
#ifndef KILN_SCHEDULE_CPU_STAGED_H_
#define KILN_SCHEDULE_CPU_STAGED_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Staged : FieldsOf<Staged> {
  int64_t step = 16;                    // elements of a vector loop step
  int64_t task = 1 << 15;               // elements of work in a task, about
  int64_t levels = 1;                   // of the lane tree
  int64_t outer_step = 16;              // elements of a tile of sums
  int64_t outer_levels = 1;             // of the tree over other dims
  bool one_vector = false;              // a tile of sums is one vector
  bool inner_first = false;             // rows are reduced whole, before other dims
  int64_t strided = 0;                  // elements of rows that strided loads reduce
  int64_t folded = 0;                   // rows whose trees fold in shared vectors
  int64_t accumulators = kReduceLanes;  // of the lane rule that rows reach
  int64_t collapsed = 1;                // innermost dims that are collapsed into one loop
  std::vector<int64_t> stored;          // maps whose values are stored, not computed anew

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Bound("levels", levels, {1, 4});
    fields.Int("outer_step", outer_step, kStepRange);
    fields.Bound("outer_levels", outer_levels, {1, 7});
    fields.Flag("one_vector", one_vector);
    fields.Flag("inner_first", inner_first);
    fields.Bound("strided", strided, {0, kReduceLanes});
    fields.Int("folded", folded, {0, kMostFolded});
    fields.Bound("accumulators", accumulators, {2, kReduceLanes});
    fields.Dims("collapsed", collapsed, /*all=*/true);
    fields.List("stored", stored, kStageRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.nests = LoopSummary::Nests::kEach,
            .across = strided > 0 ? LoopSummary::Across::kTransposed : LoopSummary::Across::kNo,
            .step = step,
            .columns = outer_step,
            .row_dims = collapsed,
            .sums_in_cache = !one_vector,
            .joins = true,
            .folds_together = folded > 0,
            .stored = AsFlags(stored, kernel.stages.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step,
            .columns = std::max(step, outer_step),
            .task = task,
            .row_step = collapsed > 1 || strided > 0 ? 1 : step,
            .in_place = {}};
  }
};
extern const Template kStaged;

// Yes if reductions go over dims before the innermost, and others over what those leave, so that
// whole rows stream through each.
Decision AcceptsStreams(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_STAGED_H_
