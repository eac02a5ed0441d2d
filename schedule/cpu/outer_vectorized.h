// SPDX-License-Identifier: Apache-2.0
// Row reductions of short rows, with vectors across rows: a tile of rows is transposed on its way
// in and out, and each lane reduces a row of its own.
//
// Example: `outer_vectorized step=8 task=4096 row=12 stored=0`
#ifndef KILN_SCHEDULE_CPU_OUTER_VECTORIZED_H_
#define KILN_SCHEDULE_CPU_OUTER_VECTORIZED_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct OuterVectorized : FieldsOf<OuterVectorized> {
  int64_t step = 16;            // elements of a vector loop step
  int64_t task = 1 << 15;       // elements of work in a task, about
  int64_t row = 0;              // elements of a row, at most
  std::vector<int64_t> stored;  // maps whose values are stored, not computed anew

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Bound("row", row, {0, kReduceLanes});
    fields.List("stored", stored, kStageRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.nests = LoopSummary::Nests::kRows,
            .across = LoopSummary::Across::kTransposed,
            .step = step,
            .one_row_at_a_time = true,
            .stored = AsFlags(stored, kernel.stages.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = 1};
  }
};
extern const Template kOuterVectorized;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_OUTER_VECTORIZED_H_
