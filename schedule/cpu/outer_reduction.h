// SPDX-License-Identifier: Apache-2.0
// Reductions that all go over the same dims, which are not just the innermost, with maps around
// them. An output tile is `step` neighbours along the innermost dim if that is kept, else one
// element; its column passes through all stages while it is in the cache.
//
// Example: `outer_reduction step=32 task=32768 outer_levels=2`
#ifndef KILN_SCHEDULE_CPU_OUTER_REDUCTION_H_
#define KILN_SCHEDULE_CPU_OUTER_REDUCTION_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct OuterReduction : FieldsOf<OuterReduction> {
  int64_t step = 16;                    // elements of a vector loop step
  int64_t task = 1 << 15;               // elements of work in a task, about
  int64_t levels = 1;                   // of the lane tree
  int64_t outer_levels = 1;             // of the tree over other dims
  int64_t accumulators = kReduceLanes;  // of the lane rule that rows reach
  int64_t batch = 1;                    // short columns that take a stage together
  bool whole_row = false;               // a tile has all of its row
  bool memory_order = false;            // what needs all tiles runs row by row
  std::vector<int64_t> stored;          // maps whose values are stored, not computed anew

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Bound("levels", levels, {1, 4});
    fields.Bound("outer_levels", outer_levels, {1, 7});
    fields.Bound("accumulators", accumulators, {2, kReduceLanes});
    fields.Int("batch", batch, {1, kMostBatch});
    fields.Flag("whole_row", whole_row);
    fields.Flag("memory_order", memory_order);
    fields.List("stored", stored, kStageRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.nests = LoopSummary::Nests::kTiles,
            .step = step,
            .columns = step,
            .joins = true,
            .strides = !whole_row,
            .batch = batch,
            .stored = AsFlags(stored, kernel.stages.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = step};
  }
};
extern const Template kOuterReduction;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_OUTER_REDUCTION_H_
