// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/fissioned.h"

#include <optional>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/cpu/loop_fission.h"

namespace kiln {
namespace {

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const std::optional<Kernel> linked = InLinks(kernel);
  if (!linked) return {};
  std::vector<Schedule> candidates;
  for (const Collapsed& collapsed : CollapsedFor(kernel, sizes)) {
    for (const int64_t vectors : {kMostVectors / 2, kMostVectors}) {
      Fissioned fissioned;
      fissioned.step = LanesFor(kernel, machine, vectors);
      fissioned.task = GrainFor(kernel, machine);
      fissioned.parts = static_cast<int64_t>(linked->stages.size());
      fissioned.collapsed = collapsed.dims;
      fissioned.expanded = collapsed.expanded;
      candidates.push_back(InPlace(kFissioned, std::move(fissioned), kernel));
    }
  }
  return candidates;
}

}  // namespace

const Template kFissioned = {"fissioned", "element-wise, a long chain in parts over strips",
                             AcceptsElementwise, Candidates, Make<Fissioned>};

}  // namespace kiln
