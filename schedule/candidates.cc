// SPDX-License-Identifier: Apache-2.0
#include "schedule/candidates.h"

#include <algorithm>

#include "schedule/device.h"

namespace kiln {

std::vector<Candidate> CandidatesFor(const Kernel& kernel, const SizeClass& sizes,
                                     const Machine& machine) {
  constexpr int64_t kUnknown = 32;
  std::vector<int64_t> extents = sizes.at_most;
  std::replace(extents.begin(), extents.end(), kUnbounded, kUnknown);
  std::vector<Candidate> candidates;
  for (const Scheduler& scheduler : ModelOf(machine.target).schedulers()) {
    if (!scheduler.accepts(kernel)) continue;
    Schedule schedule = scheduler.choose(kernel, sizes, machine);
    const bool known =
        std::any_of(candidates.begin(), candidates.end(),
                    [&](const Candidate& other) { return other.schedule == schedule; });
    if (known) continue;
    const Price price = PriceOf(kernel, extents, machine, schedule);
    candidates.push_back({std::move(schedule), price});
  }
  return candidates;
}

}  // namespace kiln
