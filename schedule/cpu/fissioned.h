// SPDX-License-Identifier: Apache-2.0
// Loop fission: a long element-wise chain of functions runs in parts, each over a strip of elements
// before the next begins, so that steps of one part overlap in the processor (loop_fission.h).
//
// Example: `fissioned step=32 task=8192 parts=3`
#ifndef KILN_SCHEDULE_CPU_FISSIONED_H_
#define KILN_SCHEDULE_CPU_FISSIONED_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Fissioned : FieldsOf<Fissioned> {
  int64_t step = 16;              // elements of a vector loop step
  int64_t task = 1 << 15;         // elements of work in a task, about
  int64_t parts = 0;              // cuts of the chain; nests are one more
  int64_t collapsed = 1;          // innermost dims that are collapsed into one loop
  std::vector<int64_t> expanded;  // inputs whose broadcast is expanded once

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Int("parts", parts, {0, 64});
    fields.Dims("collapsed", collapsed, /*all=*/true);
    fields.List("expanded", expanded, kOperandRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.step = step,
            .links = parts + 1,
            .row_dims = collapsed,
            .expanded = AsFlags(expanded, kernel.inputs.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step,
            .columns = step,
            .task = task,
            .row_step = collapsed > 1 ? 1 : step,
            .in_place = {}};
  }
};
extern const Template kFissioned;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_FISSIONED_H_
