// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/segmented.h"

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  if (cuts.empty()) return {};
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  std::vector<Schedule> candidates;
  for (const int64_t step : StepsFor(Between(kernel, cuts, 0), machine, row)) {
    Segmented segmented;
    segmented.step = step;
    segmented.task = GrainFor(kernel, machine);
    segmented.segments = static_cast<int64_t>(cuts.size());
    candidates.push_back(InPlace(kSegmented, segmented, kernel));
  }
  return candidates;
}

}  // namespace

const Template kSegmented = {"segmented", "element-wise, rows with guards in segments",
                             AcceptsElementwise, Candidates, Make<Segmented>};

}  // namespace kiln
