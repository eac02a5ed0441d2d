// SPDX-License-Identifier: Apache-2.0
// Whatever the grammar can say, on a GPU: each level of each reduction, each stored map and each
// output is a launch of its own; what one leaves for the next is in scratch memory.
//
// A level of a reduction over the innermost dim is a warp for each block of 4096 elements. Over
// another dim it is a thread for each block of 32 * 32 elements, which are two levels of that rule.
//
// Example: `stages levels=2 outer_levels=1 stored=0`
#ifndef KILN_SCHEDULE_CUDA_DEVICE_STAGES_H_
#define KILN_SCHEDULE_CUDA_DEVICE_STAGES_H_

#include <cstdint>
#include <vector>

#include "schedule/cuda/streaming.h"
#include "schedule/schedule.h"

namespace kiln {

// Elements of another dim than the innermost that one launch makes one of.
inline constexpr int64_t kOuterStep = kOuterReduceBlock * kOuterReduceBlock;  // correctness

struct DeviceStages : FieldsOf<DeviceStages> {
  int64_t levels = 3;           // of blocks of 4096, along the innermost dim
  int64_t outer_levels = 4;     // of blocks of 1024, along any other
  std::vector<int64_t> stored;  // maps whose values are stored, not computed anew

  void Visit(FieldVisitor& fields) override {
    fields.Bound("levels", levels, {1, 3});
    fields.Bound("outer_levels", outer_levels, {1, 4});
    fields.List("stored", stored, {0, 1 << 20});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.nests = LoopSummary::Nests::kEach,
            .step = kReduceLanes,
            .grid = {.columns = kWarp,
                     .rows = kBlockThreads / kWarp,
                     .levels = levels,
                     .outer_levels = outer_levels},
            .stored = AsFlags(stored, kernel.stages.size())};
  }
  LaunchInfo Info() const override {
    return {.step = kReduceLanes, .columns = kReduceLanes, .in_place = {}};
  }
};
extern const Template kDeviceStages;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_DEVICE_STAGES_H_
