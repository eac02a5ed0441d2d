// SPDX-License-Identifier: Apache-2.0
// Memory plans (exec/memory/plan_store.h) as blobs of the cache, by the intervals that they are
// for: models with the same intervals share them. A blob is the offsets, as 64-bit little-endian
// numbers. Thread-safe.
#ifndef KILN_COMPILER_STORED_PLANS_H_
#define KILN_COMPILER_STORED_PLANS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/task_queue.h"
#include "exec/memory/plan_store.h"
#include "persistent_cache/store.h"

namespace kiln {

class StoredPlans : public MemoryPlanStore {
 public:
  StoredPlans(Store& store, Yielding yielding) : store_(store), publishing_(1, yielding) {}

  std::optional<std::vector<int64_t>> Find(std::span<const Interval> intervals,
                                           int64_t alignment) override;
  void Keep(std::span<const Interval> intervals, int64_t alignment,
            const std::vector<int64_t>& offsets) override;
  // Until all that was given to Keep is written.
  void Wait() { publishing_.Wait(); }

 private:
  Store& store_;
  TaskQueue publishing_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_STORED_PLANS_H_
