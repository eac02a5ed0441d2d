// SPDX-License-Identifier: Apache-2.0
// Static memory planning: offsets for intervals, so that intervals that are alive together do not
// overlap.
//
// An interval has a half-open life [lower, upper) in steps and a size in bytes. Peak live bytes are
// a lower bound of any plan. PlanMemory tries a portfolio of greedy orders and keeps the best;
// VerifyPlan checks any plan independently.
#ifndef KILN_EXEC_MEMORY_PLAN_H_
#define KILN_EXEC_MEMORY_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln {

struct Interval {
  int64_t lower = 0, upper = 0;  // [lower, upper), lower < upper
  int64_t size = 0;              // bytes, >= 0
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // one per interval, multiples of `alignment`
  int64_t peak = 0;              // bytes of the arena
  int64_t lower_bound = 0;       // largest sum of aligned sizes alive at one step
  int64_t sum = 0;               // of all aligned sizes
  bool optimal = false;          // peak == lower_bound
};

// kInvalidArgument on a malformed interval, kResourceExhausted when sizes overflow int64.
// Deterministic, thread-safe.
absl::StatusOr<MemoryPlan> PlanMemory(std::span<const Interval> intervals, int64_t alignment);

// Checks alignment, bounds and that no two intervals alive together overlap. O(n log n) and
// independent of PlanMemory.
absl::Status VerifyPlan(std::span<const Interval> intervals, const MemoryPlan& plan,
                        int64_t alignment);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_PLAN_H_
