// SPDX-License-Identifier: Apache-2.0
// Reductions over one dim that is not the innermost, on a GPU: neighbouring threads take
// neighbouring columns, so that a warp reads whole lines of memory.
//
// Where rows are whole vectors of aligned operands, a thread takes `vector` columns with one
// access; other launches have a form with one. A block is `columns` threads by `rows` threads. Runs
// of 32 elements of a column, the blocks of the reduction's rule, are dealt out to the `rows`
// threads of the column; their results lie in shared memory, where one of these threads folds them.
// With rows=1 a thread takes whole columns, without shared memory.
//
// With levels=1 a column has at most `runs` runs, and each group of outputs is one launch with all
// reductions in it. With more, each level of each reduction is a launch, a block of which makes one
// element of a column of 32 runs; what it leaves for the next is in scratch memory.
//
// Example: `columns vector=4 columns=32 rows=8 runs=32 levels=2`
#ifndef KILN_SCHEDULE_CUDA_COLUMNS_H_
#define KILN_SCHEDULE_CUDA_COLUMNS_H_

#include <cstdint>

#include "schedule/cuda/streaming.h"
#include "schedule/schedule.h"

namespace kiln {

struct Columns : FieldsOf<Columns> {
  int64_t vector = 4;    // columns of a thread, side by side
  int64_t columns = 32;  // threads of a block along the columns
  int64_t rows = 8;      // and along each column
  int64_t runs = 32;     // of 32 elements, of a block
  int64_t levels = 1;    // of such blocks

  void Visit(FieldVisitor& fields) override {
    fields.Int("vector", vector, {1, 16});
    fields.Int("columns", columns, kThreadsRange);
    fields.Int("rows", rows, {1, kOuterReduceBlock});
    fields.Bound("runs", runs, {1, kOuterReduceBlock});
    fields.Bound("levels", levels, {1, 4});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel& kernel) const override;
  LaunchInfo Info() const override {
    return {.step = vector * columns, .columns = vector * columns, .in_place = {}};
  }

  // How often a launch with all dims' outputs reads its inputs, and the bytes of a block in shared
  // memory.
  int64_t Passes(const Kernel& kernel) const;
  int64_t SharedBytes(const Kernel& kernel) const;
};
extern const Template kColumns;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_COLUMNS_H_
