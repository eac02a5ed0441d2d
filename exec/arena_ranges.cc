// SPDX-License-Identifier: Apache-2.0
#include "exec/arena_ranges.h"

#include <algorithm>

namespace kiln {

std::vector<ArenaRange> ArenaRangesOf(const PlacementProblem& problem, const Placement& placement,
                                      std::span<const int64_t> lanes, bool on_device) {
  std::vector<ArenaRange> ranges;
  const auto add = [&](ArenaRange range, int64_t count, int64_t step) {
    if (range.begin < 0) return;
    for (int64_t lane = 0; lane < (step > 0 ? count : 1); ++lane, range.begin += step)
      ranges.push_back(range);
  };
  std::vector<int64_t> lanes_of_buffer(problem.buffers.size(), 1);
  for (size_t t = 0; t < problem.steps.size(); ++t) {
    for (const auto* accesses : {&problem.steps[t].reads, &problem.steps[t].writes}) {
      for (const PlacementProblem::Access& access : *accesses) {
        const int32_t root = placement.places[static_cast<size_t>(access.buffer)].root;
        lanes_of_buffer[static_cast<size_t>(root)] = lanes[t];
      }
    }
    if (!on_device)
      add({placement.scratch_offset[t], problem.steps[t].scratch, -1, t}, lanes[t],
          placement.scratch_step[t]);
  }
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].on_device != on_device) continue;
    add({placement.arena_offset[b], problem.buffers[b].bytes, static_cast<int32_t>(b), 0},
        lanes_of_buffer[b], placement.arena_step[b]);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const ArenaRange& a, const ArenaRange& b) { return a.begin < b.begin; });
  return ranges;
}

}  // namespace kiln
