// SPDX-License-Identifier: Apache-2.0
// Memory plans that took a search, kept from one process to the next.
#ifndef KILN_EXEC_MEMORY_PLAN_STORE_H_
#define KILN_EXEC_MEMORY_PLAN_STORE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/memory/interval.h"

namespace kiln {

// Thread-safe.
class MemoryPlanStore {
 public:
  virtual ~MemoryPlanStore() = default;
  // Offsets that were kept for exactly these intervals; what is found is the caller's to verify.
  virtual std::optional<std::vector<int64_t>> Find(std::span<const Interval> intervals,
                                                   int64_t alignment) = 0;
  // Takes the place of what was kept before. Returns at once; a failure is only logged.
  virtual void Keep(std::span<const Interval> intervals, int64_t alignment,
                    const std::vector<int64_t>& offsets) = 0;
};

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_PLAN_STORE_H_
