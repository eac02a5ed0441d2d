// SPDX-License-Identifier: Apache-2.0
// Sums at places that data choose (add_at, kernel/kernel.h) on a GPU: a thread for each element of
// a row, in each of `parts` ranges of the output's first loaded axis.
//
// One launch fills the output with zeros. In the other a thread goes through all places in order
// and adds what belongs to its range: no two threads write one element, without atomics. A block is
// `columns` threads along the innermost dim, if the output has that, by `rows` ranges.
//
// Example: `scatter columns=128 rows=1 parts=64`
#ifndef KILN_SCHEDULE_CUDA_DEVICE_SCATTER_H_
#define KILN_SCHEDULE_CUDA_DEVICE_SCATTER_H_

#include <cstdint>

#include "schedule/cuda/streaming.h"
#include "schedule/schedule.h"

namespace kiln {

struct DeviceScatter : FieldsOf<DeviceScatter> {
  int64_t columns = 128;  // threads of a block along the innermost dim
  int64_t rows = 1;       // and ranges
  int64_t parts = 64;     // ranges in all, at most

  void Visit(FieldVisitor& fields) override {
    fields.Int("columns", columns, kThreadsRange);
    fields.Int("rows", rows, kThreadsRange);
    fields.Int("parts", parts, {1, 1 << 15});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel&) const override {
    return {.step = 1, .grid = {.columns = columns, .rows = rows, .vector = 1}};
  }
  LaunchInfo Info() const override { return {.step = columns, .columns = columns, .in_place = {}}; }
};
extern const Template kDeviceScatter;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_DEVICE_SCATTER_H_
