// SPDX-License-Identifier: Apache-2.0
// Times several ways to do the same against each other, and says which one is clearly faster.
//
// The machine's state (frequency, neighbours, caches) changes over seconds, so the ways are timed
// interleaved, round by round, and of each the least time counts. Way 0 is the one that is used
// without a measurement: another one wins only if it is faster by more than 3 % in rounds of their
// own, run when the candidates for the win are known. So noise replaces nothing.
//
// Example, of two ways to copy 1 MiB:
//   const Race race = RaceWays(2, 1, [&](size_t way, size_t) { return Copy(way); });
//   race.winner;  // 0 or 1
//   race.ns[1];   // least time of way 1
//
// A way may be timed at several points (extents); it is then judged by the geometric mean of its
// ratios to way 0, and must not be slower at any of them.
#ifndef KILN_BASE_INTERLEAVE_H_
#define KILN_BASE_INTERLEAVE_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace kiln {

// Runs way `way` once at point `point`.
using RunWayFn = absl::FunctionRef<absl::Status(size_t way, size_t point)>;

// The least time of a run of each way in ns, over `rounds` rounds; infinity for one that fails.
// Runs shorter than the clock's own time are taken together.
std::vector<double> LeastNs(const std::vector<size_t>& ways, size_t point, int rounds,
                            RunWayFn run);

struct Race {
  size_t winner = 0;
  int rounds = 0;          // in which the winner was compared with way 0; 0: all are too short
  std::vector<double> ns;  // of each way, geometric mean over the points; infinity: it fails
};

// One way or more, one point or more. The winner's `ns` is infinity only if all ways fail.
Race RaceWays(size_t ways, size_t points, RunWayFn run);

}  // namespace kiln

#endif  // KILN_BASE_INTERLEAVE_H_
