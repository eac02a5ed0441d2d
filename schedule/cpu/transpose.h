// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels of which some inputs are contiguous along another dim than the outputs:
// tiles of those are transposed in registers.
//
// Example: `transpose task=32768 along=0 tile=16`
#ifndef KILN_SCHEDULE_CPU_TRANSPOSE_H_
#define KILN_SCHEDULE_CPU_TRANSPOSE_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Transpose : FieldsOf<Transpose> {
  int64_t step = 16;       // elements of a vector loop step
  int64_t task = 1 << 15;  // elements of work in a task, about
  int64_t along = 0;       // the dim along which the inputs are contiguous
  int64_t dims = 1;        // last dims of the inputs that are collapsed
  int64_t columns = 1;     // tiles along the row before the next along the other dim
  int64_t tile = 16;       // elements of a tile along the row

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Dim("along", along);
    fields.Dims("dims", dims);
    fields.Int("columns", columns, {1, 1 << 10});
    fields.Int("tile", tile, {8, 16});
  }
  LoopSummary Loops(const Kernel&) const override {
    return {.step = step, .transposes = true, .along = along, .tile = tile, .tiles = columns};
  }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = 1};
  }
};
extern const Template kTranspose;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_TRANSPOSE_H_
