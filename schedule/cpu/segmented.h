// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels with guards on the innermost coordinate, such as concat and pad: a row runs
// segment by segment, in each of which the guards are decided (index_split.h).
//
// Example: `segmented step=16 task=32768 segments=1`
#ifndef KILN_SCHEDULE_CPU_SEGMENTED_H_
#define KILN_SCHEDULE_CPU_SEGMENTED_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Segmented : FieldsOf<Segmented> {
  int64_t step = 16;       // elements of a vector loop step
  int64_t task = 1 << 15;  // elements of work in a task, about
  int64_t segments = 1;    // where the innermost dim is split: 1 makes two segments

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Int("segments", segments, {1, 64});
  }
  LoopSummary Loops(const Kernel&) const override {
    return {.segments = LoopSummary::Segments::kInTurn, .step = step};
  }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = step};
  }
};
extern const Template kSegmented;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_SEGMENTED_H_
