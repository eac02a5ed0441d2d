// SPDX-License-Identifier: Apache-2.0
// Ranges of an arena in which nothing shares memory: what lies where, and so where nothing does.
#ifndef KILN_EXEC_ARENA_RANGES_H_
#define KILN_EXEC_ARENA_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/placement_problem.h"

namespace kiln {

struct ArenaRange {
  int64_t begin = 0, bytes = 0;
  int32_t buffer = -1;  // the root of an alias class; -1: scratch
  size_t thunk = 0;     // whose scratch
};

// Of a placement with separate buffers, by address. `lanes`: per step, of the repeat that it is in;
// each lane has ranges of its own. `on_device`: of the arena there.
std::vector<ArenaRange> ArenaRangesOf(const PlacementProblem& problem, const Placement& placement,
                                      std::span<const int64_t> lanes, bool on_device);

}  // namespace kiln

#endif  // KILN_EXEC_ARENA_RANGES_H_
