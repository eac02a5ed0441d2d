// SPDX-License-Identifier: Apache-2.0
// Sums at places that data choose (add_at, kernel/kernel.h): one loop over what is added, in order.
//
// The output is filled with zeros; then each task has a range of its outermost axis that is loaded,
// and goes through all places for those within, so that no element is written by two tasks, and
// what it takes comes in order whatever the tasks are. The innermost dim is vectorised where the
// output has it. Looking through the places is repeated for each task: there are several only where
// an element of the other dims has `shared` elements or more to it.
//
// Example: `scatter step=32 task=32768`
#ifndef KILN_SCHEDULE_CPU_SCATTER_H_
#define KILN_SCHEDULE_CPU_SCATTER_H_

#include <cstdint>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Scatter : FieldsOf<Scatter> {
  int64_t step = 16;       // elements of a vector loop step; 1: the output lacks the innermost dim
  int64_t task = 1 << 15;  // elements of work in a task, about
  int64_t shared = 64;     // elements of a row from which on tasks share the rows

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Int("shared", shared, kTaskRange);
  }
  LoopSummary Loops(const Kernel&) const override { return {.step = step}; }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = 1, .in_place = {}};
  }
};
extern const Template kScatter;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_SCATTER_H_
