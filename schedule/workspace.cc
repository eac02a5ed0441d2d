// SPDX-License-Identifier: Apache-2.0
#include "schedule/workspace.h"

#include <algorithm>

#include "schedule/loop_counts.h"

namespace kiln {

double WorkspaceBytes(const Kernel& kernel, std::span<const int64_t> extents,
                      const Schedule& schedule) {
  const LoopCounts counts(kernel, extents, schedule.Loops(kernel));
  const LoopSummary& loops = counts.loops();
  double bytes = 0;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (!counts.Stored(s) || counts.OneNest()) continue;
    const Stage& stage = kernel.stages[s];
    const double all = counts.Elements(stage.dims);
    // What a row has one of stays in registers; of a map or of sums along the row it has a row.
    const bool along =
        counts.LoopsOver(s, kernel.innermost()) &&
        std::find(stage.over.begin(), stage.over.end(), kernel.innermost()) == stage.over.end();
    const double row = (along ? counts.RowOf(s) : 1) * static_cast<double>(loops.batch);
    bytes += (counts.Apart() ? all : std::min(all, row)) * static_cast<double>(SizeOf(stage.type));
  }
  for (size_t i = 0; i < loops.expanded.size(); ++i) {
    if (loops.expanded[i])
      bytes += counts.Row() * static_cast<double>(SizeOf(kernel.inputs[i].type));
  }
  return bytes;
}

}  // namespace kiln
