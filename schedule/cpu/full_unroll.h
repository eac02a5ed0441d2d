// SPDX-License-Identifier: Apache-2.0
// Kernels whose innermost dim has a few elements only: it is fully unrolled, and vectors run along
// the dim before it, or along several of those as one. Reductions over the innermost dim are
// expressions of its elements. With `packed`, a vector holds several whole rows instead.
//
// Example: `full_unroll step=8 task=32768 inner=3 known=-1,3`
#ifndef KILN_SCHEDULE_CPU_FULL_UNROLL_H_
#define KILN_SCHEDULE_CPU_FULL_UNROLL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct FullUnroll : FieldsOf<FullUnroll> {
  int64_t step = 16;              // elements of a vector loop step
  int64_t task = 1 << 15;         // elements of work in a task, about
  int64_t inner = 2;              // elements of the innermost dim, at most
  int64_t vectorized = 1;         // dims before it that vectors run along as one
  bool packed = false;            // a vector holds whole rows
  std::vector<int64_t> expanded;  // inputs whose broadcast is expanded once
  std::vector<int64_t> known;     // extent of each dim, -1 where it is not a constant
  std::vector<int64_t> stored;    // maps whose values are stored, not computed anew

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Bound("inner", inner, {0, kMostKnown});
    fields.Dims("vectorized", vectorized);
    fields.Flag("packed", packed);
    fields.List("expanded", expanded, kOperandRange);
    fields.List("known", known, {-1, kMostKnown});
    fields.List("stored", stored, kStageRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    const bool reduces =
        std::any_of(kernel.stages.begin(), kernel.stages.end(),
                    [](const Stage& stage) { return stage.kind == Stage::Kind::kReduce; });
    return {.nests = reduces ? LoopSummary::Nests::kRows : LoopSummary::Nests::kOne,
            .across = LoopSummary::Across::kUnrolled,
            .step = step,
            .lane_dims = packed ? 0 : vectorized,
            .stored = AsFlags(stored, kernel.stages.size()),
            .expanded = AsFlags(expanded, kernel.inputs.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = 1};
  }
};
extern const Template kFullUnroll;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_FULL_UNROLL_H_
