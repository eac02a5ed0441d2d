// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels whose last dims are known to be tiny and lie in another order in inputs: a
// vector holds several whole blocks of them, loaded as blocks and shuffled.
//
// Example: `packed_blocks blocks=8 task=32768 dims=2 known=-1,2,3`
#ifndef KILN_SCHEDULE_CPU_PACKED_BLOCKS_H_
#define KILN_SCHEDULE_CPU_PACKED_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct PackedBlocks : FieldsOf<PackedBlocks> {
  int64_t blocks = 1;          // of a vector
  int64_t task = 1 << 15;      // elements of work in a task, about
  int64_t dims = 1;            // innermost dims that make a block
  std::vector<int64_t> known;  // extent of each dim, -1 where it is not a constant

  void Visit(FieldVisitor& fields) override {
    fields.Int("blocks", blocks, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Dims("dims", dims);
    fields.List("known", known, {-1, kMostKnown});
  }
  LoopSummary Loops(const Kernel&) const override {
    return {.across = LoopSummary::Across::kBlocks,
            .step = blocks,
            .row_dims = dims,
            .transposes = true};
  }
  LaunchInfo Info() const override {
    return {.step = blocks, .columns = blocks, .task = task, .row_step = blocks};
  }
};
extern const Template kPackedBlocks;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_PACKED_BLOCKS_H_
