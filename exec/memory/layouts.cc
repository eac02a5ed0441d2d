// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/layouts.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr size_t kMostKept = 16;   // correctness: a bound of what is kept
constexpr size_t kExactPlans = 2;  // speed: of the same lives, before sizes are doubled
constexpr int64_t kGrowth = 2;     // speed: of sizes, and so of the peak
constexpr int64_t kSmallPeak = int64_t{1} << 16;  // speed: below this, memory is not the matter

// The largest peak that is good enough.
int64_t MostPeak(const MemoryPlan& own) {
  return std::max(kSmallPeak, CheckedMul(own.lower_bound, kGrowth).value_or(own.lower_bound));
}

// The plan as one of intervals with these bounds and this sum.
MemoryPlan WithBounds(MemoryPlan plan, const MemoryPlan& own) {
  if (plan.lower_bound != own.lower_bound) plan.best_bound = own.lower_bound;
  plan.lower_bound = own.lower_bound;
  plan.sum = own.sum;
  plan.optimal = plan.peak == plan.best_bound;
  return plan;
}

bool SameLives(std::span<const Interval> a, const std::vector<Interval>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.lower == y.lower && x.upper == y.upper;
  });
}

bool Covers(const std::vector<Interval>& larger, std::span<const Interval> intervals,
            MemoryLayouts::Sizes sizes) {
  const bool grow = sizes == MemoryLayouts::Sizes::kGrowing;
  return std::equal(intervals.begin(), intervals.end(), larger.begin(), larger.end(),
                    [&](const auto& x, const auto& y) {
                      return x.lower == y.lower && x.upper == y.upper &&
                             (grow ? x.size <= y.size : x.size == y.size);
                    });
}

}  // namespace

std::optional<MemoryPlan> MemoryLayouts::Find(std::span<const Interval> intervals,
                                              int64_t alignment, Sizes sizes,
                                              const MemoryPlan& own) {
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->alignment != alignment || !Covers(it->intervals, intervals, sizes)) continue;
    if (sizes == Sizes::kGrowing && it->plan.peak > MostPeak(own)) continue;
    if (best == kept_.end() || it->plan.peak < best->plan.peak) best = it;
  }
  if (best == kept_.end()) return std::nullopt;
  kept_.splice(kept_.begin(), kept_, best);
  MemoryPlan plan = WithBounds(kept_.front().plan, own);
  plan.made = false;
  plan.nodes = 0;
  return plan;
}

std::vector<Interval> MemoryLayouts::Grown(std::span<const Interval> intervals) const {
  std::vector<Interval> grown(intervals.begin(), intervals.end());
  std::vector<bool> changes(intervals.size(), false);
  size_t alike = 0;
  for (const Layout& layout : kept_) {
    if (!SameLives(intervals, layout.intervals)) continue;
    ++alike;
    for (size_t i = 0; i < intervals.size(); ++i)
      changes[i] = changes[i] || layout.intervals[i].size != intervals[i].size;
  }
  if (alike < kExactPlans) return grown;
  for (size_t i = 0; i < grown.size(); ++i) {
    if (changes[i]) grown[i].size = CheckedMul(grown[i].size, kGrowth).value_or(grown[i].size);
  }
  return grown;
}

std::optional<MemoryPlan> MemoryLayouts::Verified(std::span<const Interval> intervals,
                                                  int64_t alignment, std::vector<int64_t> offsets) {
  if (offsets.size() != intervals.size()) return std::nullopt;
  absl::StatusOr<MemoryPlan> plan = MemoryBounds(intervals, alignment);
  if (!plan.ok()) return std::nullopt;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const std::optional<int64_t> size = CheckedRoundUp(intervals[i].size, alignment);
    const std::optional<int64_t> end = size ? CheckedAdd(offsets[i], *size) : std::nullopt;
    if (!end) return std::nullopt;
    plan->peak = std::max(plan->peak, *end);
  }
  plan->offsets = std::move(offsets);
  plan->optimal = plan->peak == plan->lower_bound;
  plan->order = "stored";
  if (!VerifyPlan(intervals, *plan, alignment).ok()) return std::nullopt;
  return *std::move(plan);
}

absl::StatusOr<MemoryPlan> MemoryLayouts::Make(std::span<const Interval> intervals,
                                               int64_t alignment) {
  PlanBudget greedy;
  greedy.visits = 0;
  KILN_ASSIGN_OR_RETURN(MemoryPlan plan, PlanMemory(intervals, alignment, greedy));
  if (plan.optimal) return plan;
  if (store_ != nullptr) {
    std::optional<std::vector<int64_t>> offsets = store_->Find(intervals, alignment);
    if (offsets) {
      std::optional<MemoryPlan> stored = Verified(intervals, alignment, *std::move(offsets));
      if (stored && stored->peak <= plan.peak) return *std::move(stored);
    }
  }
  KILN_ASSIGN_OR_RETURN(plan, PlanMemory(intervals, alignment));
  if (store_ != nullptr && plan.complete) store_->Keep(intervals, alignment, plan.offsets);
  return plan;
}

absl::StatusOr<MemoryPlan> MemoryLayouts::Plan(std::span<const Interval> intervals,
                                               int64_t alignment, Sizes sizes) {
  KILN_ASSIGN_OR_RETURN(const MemoryPlan own, MemoryBounds(intervals, alignment));
  std::vector<Interval> exact(intervals.begin(), intervals.end()), grown;
  {
    const MutexLock lock(mutex_);
    if (std::optional<MemoryPlan> found = Find(intervals, alignment, sizes, own))
      return *std::move(found);
    grown = sizes == Sizes::kGrowing ? Grown(intervals) : exact;
  }
  absl::StatusOr<MemoryPlan> made = Make(grown, alignment);
  // So much more may be too much, or not be packed as well.
  if (sizes == Sizes::kGrowing && (!made.ok() || made->peak > MostPeak(own))) {
    grown = std::move(exact);
    made = Make(grown, alignment);
  }
  KILN_RETURN_IF_ERROR(made.status());
  const MutexLock lock(mutex_);
  ++made_;
  kept_.push_front({std::move(grown), alignment, *made});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return WithBounds(*std::move(made), own);
}

void MemoryLayouts::Improve(int64_t visits) {
  if (store_ == nullptr) return;
  std::vector<Layout> open;
  {
    const MutexLock lock(mutex_);
    for (const Layout& layout : kept_)
      if (!layout.plan.optimal) open.push_back(layout);
  }
  PlanBudget budget;
  budget.visits = visits;
  for (Layout& layout : open) {
    const absl::StatusOr<MemoryPlan> better =
        PlanMemory(layout.intervals, layout.alignment, budget);
    if (better.ok() && better->complete && better->peak < layout.plan.peak)
      store_->Keep(layout.intervals, layout.alignment, better->offsets);
  }
}

int64_t MemoryLayouts::made() const {
  const MutexLock lock(mutex_);
  return made_;
}

}  // namespace kiln
