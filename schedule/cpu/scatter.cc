// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/scatter.h"

#include <vector>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  Scatter scatter;
  scatter.task = GrainFor(kernel, machine);
  if (!AddsRows(kernel)) {
    scatter.step = 1;
    return {Schedule(kScatter, scatter)};
  }
  std::vector<Schedule> candidates;
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  for (const int64_t step : StepsFor(kernel, machine, row)) {
    scatter.step = step;
    candidates.emplace_back(kScatter, scatter);
  }
  return candidates;
}

}  // namespace

const Template kScatter = {"scatter",     "sums at places that data choose, in order",
                           AcceptsSums,   Candidates,
                           Make<Scatter>, /*adds=*/true};

}  // namespace kiln
