// SPDX-License-Identifier: Apache-2.0
#include "schedule/scheduler.h"

#include "absl/strings/str_cat.h"
#include "schedule/schedulers.h"

namespace kiln {

std::span<const Scheduler> CpuSchedulers() {
  static const Scheduler kSchedulers[] = {kPointwiseScheduler, kRowScheduler,   kColumnScheduler,
                                          kCrossScheduler,     kSweepScheduler, kGeneralScheduler};
  return kSchedulers;
}

const Scheduler* FindScheduler(const Kernel& kernel, std::string* why) {
  for (const Scheduler& scheduler : CpuSchedulers()) {
    const Decision decision = scheduler.accepts(kernel);
    if (decision) return &scheduler;
    if (why != nullptr) {
      absl::StrAppend(why, why->empty() ? "" : "; ", scheduler.name, ": ", decision.reason());
    }
  }
  return nullptr;
}

}  // namespace kiln
