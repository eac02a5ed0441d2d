// SPDX-License-Identifier: Apache-2.0
#include "schedule/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedule/device.h"

namespace kiln {

bool SizeClass::Contains(std::span<const int64_t> extents) const {
  return std::equal(extents.begin(), extents.end(), at_most.begin(), at_most.end(),
                    [](int64_t extent, int64_t limit) { return extent <= limit; });
}

const Scheduler* FindScheduler(const Kernel& kernel, Target target, std::string* why) {
  for (const Scheduler& scheduler : ModelOf(target).schedulers()) {
    const Decision decision = scheduler.accepts(kernel);
    if (decision) return &scheduler;
    if (why != nullptr) {
      absl::StrAppend(why, why->empty() ? "" : "; ", scheduler.name, ": ", decision.reason());
    }
  }
  return nullptr;
}

}  // namespace kiln
