// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "exec/memory/greedy.h"
#include "exec/memory/minimise.h"
#include "exec/memory/part.h"

namespace kiln {
namespace {

constexpr size_t kMostSearched = 4096;             // compile time: intervals of a part
constexpr int64_t kMostBytes = int64_t{1} << 61;   // correctness: sums of three sizes fit
constexpr int64_t kMostVisits = int64_t{1} << 56;  // correctness: rounds of them fit

absl::Status Malformed(size_t i, const Interval& interval) {
  return absl::InvalidArgumentError(
      absl::StrCat("memory plan: interval ", i, " lives [", interval.lower, ", ", interval.upper,
                   ") with ", interval.size, " bytes; need lower < upper and size >= 0"));
}

// The intervals with sizes rounded up to the alignment; their sum is set.
absl::StatusOr<std::vector<Interval>> Aligned(std::span<const Interval> intervals,
                                              int64_t alignment, int64_t& sum) {
  if (alignment <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory plan: alignment is ", alignment, "; it must be positive"));
  }
  std::vector<Interval> aligned(intervals.begin(), intervals.end());
  for (size_t i = 0; i < aligned.size(); ++i) {
    Interval& interval = aligned[i];
    if (interval.lower >= interval.upper || interval.size < 0) return Malformed(i, interval);
    const std::optional<int64_t> size = CheckedRoundUp(interval.size, alignment);
    const std::optional<int64_t> total = size ? CheckedAdd(sum, *size) : std::nullopt;
    if (!total) {
      return absl::ResourceExhaustedError("memory plan: the sum of all sizes exceeds 64 bits");
    }
    interval.size = *size;
    sum = *total;
  }
  return aligned;
}

// The parts of a problem and the best packing of each so far.
class Planner {
 public:
  Planner(std::span<const Interval> aligned, const PlanBudget& budget)
      : budget_(budget), parts_(CutIntoParts(aligned)) {
    for (const PlanPart& part : parts_)
      plan_.lower_bound = std::max(plan_.lower_bound, part.lower_bound);
    plan_.offsets.assign(aligned.size(), 0);
    plan_.best_bound = plan_.lower_bound;
    enough_ = std::max(plan_.lower_bound, budget.capacity.value_or(0));
  }

  MemoryPlan Run(bool may_search) {
    for (const PlanPart& part : parts_) {
      packings_.push_back(PackGreedily(part, enough_, budget_.stop));
      if (packings_.back().stopped) plan_.complete = false;
    }
    if (may_search) Search();
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (size_t i = 0; i < parts_[p].size(); ++i)
        plan_.offsets[parts_[p].numbers[i]] = packings_[p].offsets[i];
      if (packings_[p].peak <= plan_.peak) continue;
      plan_.peak = packings_[p].peak;
      plan_.order = packings_[p].order;
    }
    plan_.optimal = plan_.peak == plan_.best_bound;
    return std::move(plan_);
  }

 private:
  // Improves the parts that stand above what is enough, the highest first: where one stays high,
  // that is enough for the others too. Each may take an equal share of what is left.
  void Search() {
    std::vector<size_t> high;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (packings_[p].peak > enough_ && parts_[p].size() <= kMostSearched) high.push_back(p);
    }
    std::stable_sort(high.begin(), high.end(),
                     [this](size_t a, size_t b) { return packings_[a].peak > packings_[b].peak; });
    int64_t visits = std::min(budget_.visits, kMostVisits);
    for (size_t k = 0; k < high.size(); ++k) {
      const size_t p = high[k];
      const auto share = visits / static_cast<int64_t>(high.size() - k);
      const Minimised done = Minimise(parts_[p], enough_, share, budget_, packings_[p]);
      visits -= done.visits;
      plan_.nodes += done.nodes;
      plan_.best_bound = std::max(plan_.best_bound, done.bound);
      if (done.stopped) plan_.complete = false;
      enough_ = std::max(enough_, packings_[p].peak);
    }
  }

  const PlanBudget& budget_;
  const std::vector<PlanPart> parts_;
  std::vector<Packing> packings_;  // per part
  int64_t enough_ = 0;             // what no part need stay below
  MemoryPlan plan_;
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(std::span<const Interval> intervals, int64_t alignment,
                                      const PlanBudget& budget) {
  int64_t sum = 0;
  KILN_ASSIGN_OR_RETURN(const std::vector<Interval> aligned, Aligned(intervals, alignment, sum));
  MemoryPlan plan = Planner(aligned, budget).Run(sum < kMostBytes);
  plan.sum = sum;
  return plan;
}

std::optional<int64_t> MostBytesAlive(std::span<const Interval> intervals, int64_t alignment) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // step, bytes
  for (const Interval& interval : intervals) {
    const std::optional<int64_t> size = CheckedRoundUp(interval.size, alignment);
    if (!size) return std::nullopt;
    changes.emplace_back(interval.lower, *size);
    changes.emplace_back(interval.upper, -*size);  // first: lives are half-open
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, most = 0;
  for (const auto& [step, bytes] : changes) {
    const std::optional<int64_t> sum = CheckedAdd(alive, bytes);
    if (!sum) return std::nullopt;
    alive = *sum;
    most = std::max(most, alive);
  }
  return most;
}

absl::StatusOr<MemoryPlan> MemoryBounds(std::span<const Interval> intervals, int64_t alignment) {
  MemoryPlan bounds;
  KILN_ASSIGN_OR_RETURN(const std::vector<Interval> aligned,
                        Aligned(intervals, alignment, bounds.sum));
  bounds.lower_bound = bounds.best_bound = MostBytesAlive(aligned, alignment).value();
  return bounds;
}

absl::Status VerifyPlan(std::span<const Interval> intervals, const MemoryPlan& plan,
                        int64_t alignment) {
  const auto bad = [](auto&&... text) {
    return absl::InternalError(absl::StrCat("memory plan: ", text...));
  };
  if (alignment <= 0) return bad("alignment ", alignment);
  if (plan.offsets.size() != intervals.size()) {
    return bad(plan.offsets.size(), " offsets for ", intervals.size(), " intervals");
  }
  struct Event {
    int64_t time;
    bool begin;  // ends come first: lives are half-open
    size_t interval;
    bool operator<(const Event& o) const {
      return std::tie(time, begin, interval) < std::tie(o.time, o.begin, o.interval);
    }
  };
  std::vector<Event> events;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const int64_t offset = plan.offsets[i];
    if (offset < 0 || offset % alignment != 0) return bad("offset ", offset, " of interval ", i);
    const std::optional<int64_t> end = CheckedAdd(offset, intervals[i].size);
    if (!end || *end > plan.peak) return bad("interval ", i, " ends beyond the peak ", plan.peak);
    if (intervals[i].size == 0) continue;
    events.push_back({intervals[i].lower, true, i});
    events.push_back({intervals[i].upper, false, i});
  }
  std::sort(events.begin(), events.end());
  // What is alive never overlaps, so a new interval can only meet its two neighbours by offset.
  std::map<int64_t, size_t> alive;
  for (const Event& event : events) {
    const int64_t offset = plan.offsets[event.interval];
    if (!event.begin) {
      alive.erase(offset);
      continue;
    }
    const auto [it, fresh] = alive.emplace(offset, event.interval);
    if (!fresh) return bad("intervals ", it->second, " and ", event.interval, " overlap");
    if (const auto next = std::next(it);
        next != alive.end() && offset + intervals[event.interval].size > next->first) {
      return bad("intervals ", event.interval, " and ", next->second, " overlap");
    }
    if (it != alive.begin()) {
      const auto previous = std::prev(it);
      if (previous->first + intervals[previous->second].size > offset) {
        return bad("intervals ", previous->second, " and ", event.interval, " overlap");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
