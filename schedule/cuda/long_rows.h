// SPDX-License-Identifier: Apache-2.0
// Reductions over the innermost dim on a GPU, of rows that are too long for a warp, and of all
// elements to one.
//
// The blocks of 4096 elements of the reduction's rule are dealt out: 16 threads take one, or 32
// where operands are not aligned (as in warp_rows). With `blocks`, a row has at most that many and
// is a block of threads: what its blocks come to lies in shared memory, where one thread folds it,
// and each group of outputs is one launch with all reductions in it, which reads the row once for
// each of them. Without, each of the `levels` of each reduction is a launch over the whole device
// that leaves its results in scratch memory, and outputs are launches of their own.
//
// Example: `long_rows blocks=8`
#ifndef KILN_SCHEDULE_CUDA_LONG_ROWS_H_
#define KILN_SCHEDULE_CUDA_LONG_ROWS_H_

#include <cstdint>

#include "schedule/cuda/streaming.h"
#include "schedule/schedule.h"

namespace kiln {

inline constexpr int64_t kMostBlocksOfRow = 16;  // correctness: registers of up to 512 threads

struct LongRows : FieldsOf<LongRows> {
  int64_t blocks = 0;  // of 4096 elements, a power of two; 0: any number
  int64_t levels = 1;  // of such blocks

  void Visit(FieldVisitor& fields) override {
    fields.Bound("blocks", blocks, {0, kMostBlocksOfRow});
    fields.Bound("levels", levels, {1, 3});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel&) const override;
  LaunchInfo Info() const override {
    return {.step = kReduceLanes, .columns = kReduceLanes, .in_place = {}};
  }

  // Launches with operands aligned, and how often they read the inputs together.
  int64_t Launches(const Kernel& kernel) const;
  int64_t Passes(const Kernel& kernel) const;
};
extern const Template kLongRows;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_LONG_ROWS_H_
