// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels of short rows, with a loop for each dim, permuted so that reads and writes
// run in few streams. With `segments`, vectors run over all segments of a row at once
// (index_split.h), and each lane takes the value of its own.
//
// Example: `memory_order step=16 task=32768 order=1`
#ifndef KILN_SCHEDULE_CPU_MEMORY_ORDER_H_
#define KILN_SCHEDULE_CPU_MEMORY_ORDER_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct MemoryOrder : FieldsOf<MemoryOrder> {
  int64_t step = 16;       // elements of a vector loop step
  int64_t task = 1 << 15;  // elements of work in a task, about
  int64_t order = 0;       // along which rows of inputs follow each other
  int64_t segments = 0;    // where the innermost dim is split: 1 makes two segments

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Dim("order", order);
    fields.Int("segments", segments, {0, 64});
  }
  LoopSummary Loops(const Kernel&) const override {
    return {
        .segments = segments > 0 ? LoopSummary::Segments::kBlended : LoopSummary::Segments::kNone,
        .step = step,
        .order = order};
  }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = step};
  }
};
extern const Template kMemoryOrder;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_MEMORY_ORDER_H_
