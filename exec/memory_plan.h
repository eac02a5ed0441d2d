// SPDX-License-Identifier: Apache-2.0
// Static memory planning: offsets for intervals, so that intervals that are alive together do not
// overlap, with the least peak that the budget finds.
//
// An interval has a half-open life [lower, upper) in steps and a size in bytes. The most bytes
// alive at one step are a lower bound of any plan. Example:
//
//   12 |            dddddddd    a [0, 2) 4 bytes, b [1, 3) 4, c [2, 4) 4, d [3, 5) 8
//    8 |    bbbbbbbbdddddddd    At step 3 c and d are alive: 12 bytes are the bound, which
//    4 |aaaaaaaacccccccc        this plan reaches. The sum is 20.
//      0   1   2   3   4   5
//
// PlanMemory cuts the problem where no interval crosses (exec/memory/part.h), tries greedy orders
// on each part (greedy.h), and searches exactly where those leave a gap to the bound (minimise.h,
// race.h, search.h). What the search may cost is counted, not timed: the same intervals, alignment
// and budget give the same plan on every machine, with any number of threads, under any load.
#ifndef KILN_EXEC_MEMORY_PLAN_H_
#define KILN_EXEC_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/memory/budget.h"
#include "exec/memory/interval.h"

namespace kiln {

struct MemoryPlan {
  std::vector<int64_t> offsets;  // one per interval, multiples of `alignment`
  int64_t peak = 0;              // bytes of the arena
  int64_t lower_bound = 0;       // largest sum of aligned sizes alive at one step
  int64_t sum = 0;               // of all aligned sizes
  bool optimal = false;          // peak == best_bound
  int64_t best_bound = 0;        // no plan has a smaller peak; at least lower_bound
  int64_t nodes = 0;             // of the exact search; 0: the greedy orders were enough
  std::string order = "";        // what made the part with the peak: "size first-fit", "exact TAW"
  bool made = true;              // false: taken from earlier intervals (exec/memory/layouts.h)
  bool complete = true;          // false: budget.stop cut the search. Not to be kept: another run
                                 // may give another plan
};

// Without a capacity the peak is as small as the budget allows; with one, the first plan that fits
// is given, or, where none does, the best plan that was seen. kInvalidArgument on a malformed
// interval, kResourceExhausted when sizes overflow int64. Deterministic but for budget.stop;
// thread-safe; starts no thread.
absl::StatusOr<MemoryPlan> PlanMemory(std::span<const Interval> intervals, int64_t alignment,
                                      const PlanBudget& budget = {});

// The most bytes, of sizes rounded up to `alignment`, that are alive at one step; nothing: more
// than int64 holds.
std::optional<int64_t> MostBytesAlive(std::span<const Interval> intervals, int64_t alignment);

// The bounds and the sum alone; errors as PlanMemory.
absl::StatusOr<MemoryPlan> MemoryBounds(std::span<const Interval> intervals, int64_t alignment);

// Checks alignment, bounds and that no two intervals alive together overlap. O(n log n) and
// independent of PlanMemory.
absl::Status VerifyPlan(std::span<const Interval> intervals, const MemoryPlan& plan,
                        int64_t alignment);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_PLAN_H_
