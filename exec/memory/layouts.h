// SPDX-License-Identifier: Apache-2.0
// MemoryLayouts: the memory plans of a model, made here or kept from earlier processes.
//
//   MemoryLayouts layouts(store);
//   layouts.Plan(intervals, 64, MemoryLayouts::Sizes::kFixed);
//
// Of a model whose extents grow from run to run, as the keys and values of a decoder do, the
// intervals stay the same but for sizes, and a plan for larger sizes is one for smaller ones:
//
//   Plan({{0, 2, 640}, {1, 3, 64}}, 64, kGrowing)    made: 640 and 64 bytes
//   Plan({{0, 2, 704}, {1, 3, 64}}, 64, kGrowing)    made: 704 and 64
//   Plan({{0, 2, 768}, {1, 3, 64}}, 64, kGrowing)    made for 1536 and 64
//   Plan({{0, 2, 832}, {1, 3, 64}}, 64, kGrowing)    the last one again, up to 1536
//
// The first two plans for the same lives are exact. After that the sizes that were seen to change
// are doubled before they are planned, so that n steps of growth make about log2(n) plans. A plan
// is taken again only where its peak is at most twice the bound, or small.
#ifndef KILN_EXEC_MEMORY_LAYOUTS_H_
#define KILN_EXEC_MEMORY_LAYOUTS_H_

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "exec/memory/plan_store.h"
#include "exec/memory_plan.h"

namespace kiln {

// Thread-safe.
class MemoryLayouts {
 public:
  enum class Sizes : uint8_t { kFixed, kGrowing };

  // `store`, which outlives this, has plans that took a search; null: none are kept.
  explicit MemoryLayouts(MemoryPlanStore* store = nullptr) : store_(store) {}

  // A plan of the intervals: its offsets, peak and order may be those of larger intervals; its
  // bounds and sum are these intervals' own. Errors as of PlanMemory.
  absl::StatusOr<MemoryPlan> Plan(std::span<const Interval> intervals, int64_t alignment,
                                  Sizes sizes);
  // Searches on, with this budget each, for the plans that stand above their bound. What is found
  // is in the store afterwards, for plans made later.
  void Improve(int64_t visits);
  // How many were made here, others having been taken again.
  int64_t made() const;

 private:
  struct Layout {
    std::vector<Interval> intervals;
    int64_t alignment = 0;
    MemoryPlan plan;
  };
  // The kept plan that fits and has the least peak.
  std::optional<MemoryPlan> Find(std::span<const Interval> intervals, int64_t alignment,
                                 Sizes sizes, const MemoryPlan& own)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The intervals that a new plan should be for.
  std::vector<Interval> Grown(std::span<const Interval> intervals) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of exactly these intervals: greedy if that reaches the bound, else stored or searched.
  absl::StatusOr<MemoryPlan> Make(std::span<const Interval> intervals, int64_t alignment);
  // A plan with these offsets, if it is one.
  static std::optional<MemoryPlan> Verified(std::span<const Interval> intervals, int64_t alignment,
                                            std::vector<int64_t> offsets);

  MemoryPlanStore* const store_;
  mutable Mutex mutex_;
  std::list<Layout> kept_ ABSL_GUARDED_BY(mutex_);  // newest use first
  int64_t made_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_LAYOUTS_H_
