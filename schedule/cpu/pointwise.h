// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels: one loop nest over all dims makes every output; maps are computed where
// they are read.
//
// The dims but the innermost are collapsed into one loop (rows), cut into tasks; the innermost is
// vectorised. Where rows end inside a step, the last `collapsed` dims are collapsed, and inputs
// over only some of them are expanded once, so that each vector of them is one load.
//
// Example: `pointwise step=64 task=32768 collapsed=2 expanded=1`
#ifndef KILN_SCHEDULE_CPU_POINTWISE_H_
#define KILN_SCHEDULE_CPU_POINTWISE_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Pointwise : FieldsOf<Pointwise> {
  int64_t step = 16;              // elements of a vector loop step
  int64_t task = 1 << 15;         // elements of work in a task, about
  int64_t collapsed = 1;          // innermost dims that are collapsed into one loop
  std::vector<int64_t> expanded;  // inputs whose broadcast is expanded once

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Dims("collapsed", collapsed, /*all=*/true);
    fields.List("expanded", expanded, kOperandRange);
  }
  LoopSummary Loops(const Kernel& kernel) const override {
    return {
        .step = step, .row_dims = collapsed, .expanded = AsFlags(expanded, kernel.inputs.size())};
  }
  LaunchInfo Info() const override {
    return {.step = step,
            .columns = step,
            .task = task,
            .row_step = collapsed > 1 ? 1 : step,
            .in_place = {}};
  }
};
extern const Template kPointwise;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_POINTWISE_H_
