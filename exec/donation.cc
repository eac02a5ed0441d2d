// SPDX-License-Identifier: Apache-2.0
#include "exec/donation.h"

#include <algorithm>
#include <utility>

namespace kiln {

using Space = PlacementProblem::Space;
using Access = PlacementProblem::Access;

Donations::Donations(const PlacementProblem& problem, const Placement& placement)
    : uses_(problem.buffers.size()), in_place_(problem.steps.size()) {
  // When a step runs. Steps of a repeat read until its end and write from its beginning on.
  std::vector<std::pair<int64_t, int64_t>> spans(problem.steps.size());
  for (size_t i = 0; i < placement.order.size(); ++i) {
    const auto now = static_cast<int64_t>(i);
    spans[static_cast<size_t>(placement.order[i])] = {now, now};
  }
  for (const PlacementProblem::Repeat& repeat : problem.repeats) {
    for (size_t t = repeat.begin; t < repeat.end; ++t) spans[t] = {repeat.begin, repeat.end - 1};
  }
  const auto note = [&](const Access& access, size_t t, size_t operand, bool write) {
    const Placement::Place& place = placement.places[static_cast<size_t>(access.buffer)];
    const auto root = static_cast<size_t>(place.root);
    const Space space = problem.buffers[root].space;
    if (access.begin == access.end || space != (write ? Space::kOutput : Space::kInput)) return;
    Use& use = uses_[root];
    const int64_t step = write ? spans[t].first : spans[t].second;
    if (use.step != kNever && (write ? use.step < step : use.step > step)) return;
    if (use.step != step) use.operands = 0;
    use = {step,
           use.operands + 1,
           static_cast<int32_t>(operand),
           place.offset + access.begin,
           place.offset + access.end,
           access.item,
           access.dense};
  };
  for (size_t t = 0; t < problem.steps.size(); ++t) {
    const PlacementProblem::Step& step = problem.steps[t];
    if (step.view && !placement.copies[t]) continue;  // no launch
    in_place_[static_cast<size_t>(spans[t].first)] = step.in_place;
    for (size_t i = 0; i < step.reads.size(); ++i) note(step.reads[i], t, i, /*write=*/false);
    for (size_t i = 0; i < step.writes.size(); ++i) note(step.writes[i], t, i, /*write=*/true);
  }
  // A step that is repeated alone: what one part has written, the next may read.
  for (const PlacementProblem::Repeat& repeat : problem.repeats) in_place_[repeat.begin].clear();
}

bool Donations::ReadsEndBeforeWrites(int32_t input, int32_t output) const {
  const Use &read = use(input), &write = use(output);
  return read.step == kNever || write.step == kNever || read.step < write.step;
}

bool Donations::WritesInPlace(int32_t input, int32_t output) const {
  const Use &read = use(input), &write = use(output);
  if (read.step != write.step || read.step == kNever) return false;
  if (read.operands != 1 || write.operands != 1) return false;
  const auto& pairs = in_place_[static_cast<size_t>(read.step)];
  const bool alike = read.dense && write.dense && read.item == write.item &&
                     read.begin == write.begin && read.end == write.end;
  return alike && std::find(pairs.begin(), pairs.end(), std::pair(read.operand, write.operand)) !=
                      pairs.end();
}

}  // namespace kiln
