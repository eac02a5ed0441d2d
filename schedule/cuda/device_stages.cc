// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/device_stages.h"

#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

Decision Accepts(const Kernel&) { return Decision::Yes(); }

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes, const Machine&) {
  DeviceStages stages;
  stages.stored = Members(MapsToMaterialise(kernel, {.reindexed = true}));
  int64_t inner = 1, outer = 1;
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      const int64_t extent = std::min<int64_t>(sizes.at_most[static_cast<size_t>(dim)], INT32_MAX);
      int64_t& most = dim == kernel.innermost() ? inner : outer;
      most = std::max(most, extent);
    }
  }
  stages.levels = LevelsFor(inner, kReduceBlock);
  stages.outer_levels = LevelsFor(outer, kOuterStep);
  return {Schedule(kDeviceStages, stages)};
}

}  // namespace

absl::Status DeviceStages::CheckFor(const Kernel& kernel) const {
  for (const int64_t stage : stored) {
    if (stage >= static_cast<int64_t>(kernel.stages.size()) ||
        IsReduction(kernel.stages[static_cast<size_t>(stage)]))
      return absl::InvalidArgumentError("stages: what is stored are maps");
  }
  return absl::OkStatus();
}

const Template kDeviceStages = {"stages", "anything, a launch for each stage that is stored",
                                Accepts, Candidates, Make<DeviceStages>};

}  // namespace kiln
