// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/pointwise.h"

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"

namespace kiln {
namespace {

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  std::vector<Schedule> candidates;
  for (const Collapsed& collapsed : CollapsedFor(kernel, sizes)) {
    const auto x = static_cast<int32_t>(kernel.innermost());
    const int64_t row = ElementsOf(sizes, x + 1 - static_cast<int32_t>(collapsed.dims), x);
    for (const int64_t step : StepsFor(kernel, machine, row)) {
      Pointwise pointwise;
      pointwise.step = step;
      pointwise.task = GrainFor(kernel, machine);
      pointwise.collapsed = collapsed.dims;
      pointwise.expanded = collapsed.expanded;
      candidates.push_back(InPlace(kPointwise, std::move(pointwise), kernel));
    }
  }
  return candidates;
}

}  // namespace

const Template kPointwise = {"pointwise", "element-wise, vectors along the innermost dim",
                             AcceptsElementwise, Candidates, Make<Pointwise>};

}  // namespace kiln
