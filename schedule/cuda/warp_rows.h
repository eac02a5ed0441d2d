// SPDX-License-Identifier: Apache-2.0
// Reductions over the innermost dim on a GPU: 16 or 32 threads of a warp take a row.
//
// The 64 lanes of the reduction tree (kernel/kernel.h) lie in the registers of a row's threads, and
// fold by shuffles: no shared memory, no barrier. Where rows are whole vectors of aligned operands,
// thread t of 16 holds lanes 4t to 4t + 3, of 32 lanes 2t and 2t + 1, which it reads with one
// access; other launches have a form in which thread t of 32 holds lanes t and t + 32, and which
// keeps nothing.
//
// With `steps`, rows have at most that many times 64 elements, and what `stored` and `inputs` name
// is kept in registers from the first pass over the row to the last; without, each pass reads the
// row again, and `levels` says how many levels of the tree a row may have.
//
// Example: `warp_rows threads=16 steps=4 rows=8 inputs=0 stored=2`
#ifndef KILN_SCHEDULE_CUDA_WARP_ROWS_H_
#define KILN_SCHEDULE_CUDA_WARP_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/cuda/streaming.h"
#include "schedule/schedule.h"

namespace kiln {

struct WarpRows : FieldsOf<WarpRows> {
  int64_t threads = 16;         // of a row
  int64_t rows = 8;             // of a block
  int64_t steps = 0;            // of 64 elements; 0: any number
  int64_t levels = 1;           // of blocks of kReduceBlock elements
  std::vector<int64_t> stored;  // maps kept in registers
  std::vector<int64_t> inputs;  // and inputs

  void Visit(FieldVisitor& fields) override {
    fields.Int("threads", threads, {kWarp / 2, kWarp});
    fields.Int("rows", rows, kThreadsRange);
    fields.Bound("steps", steps, {0, 64});
    fields.Bound("levels", levels, {1, 2});
    fields.List("stored", stored, {0, 1 << 20});
    fields.List("inputs", inputs, {0, 1 << 20});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.nests = LoopSummary::Nests::kRows,
            .step = kReduceLanes,
            .grid = {.columns = threads,
                     .rows = rows,
                     .vector = kReduceLanes / threads,
                     .steps = std::max<int64_t>(1, steps),
                     .inputs = AsFlags(inputs, kernel.inputs.size())},
            .stored = AsFlags(stored, kernel.stages.size())};
  }
  LaunchInfo Info() const override {
    return {.step = kReduceLanes, .columns = kReduceLanes, .in_place = {}};
  }
};
extern const Template kWarpRows;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_WARP_ROWS_H_
