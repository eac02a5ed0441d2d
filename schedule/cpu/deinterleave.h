// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels of inputs whose last dim has a few elements, the channels of an image, that
// outputs have as planes: strided loads become dense loads and shuffles.
//
// Example: `deinterleave step=16 task=32768 channel=0 channels=3`
#ifndef KILN_SCHEDULE_CPU_DEINTERLEAVE_H_
#define KILN_SCHEDULE_CPU_DEINTERLEAVE_H_

#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct Deinterleave : FieldsOf<Deinterleave> {
  int64_t step = 16;       // elements of a vector loop step
  int64_t task = 1 << 15;  // elements of work in a task, about
  int64_t channel = 0;     // the dim that is interleaved
  int64_t channels = 1;    // its extent
  bool together = false;   // a step makes all channels

  void Visit(FieldVisitor& fields) override {
    fields.Int("step", step, kStepRange);
    fields.Int("task", task, kTaskRange);
    fields.Dim("channel", channel);
    fields.Int("channels", channels, {1, kMostKnown});
    fields.Flag("together", together);
  }
  LoopSummary Loops(const Kernel&) const override { return {.step = step, .transposes = true}; }
  LaunchInfo Info() const override {
    return {.step = step, .columns = step, .task = task, .row_step = step};
  }
};
extern const Template kDeinterleave;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_DEINTERLEAVE_H_
