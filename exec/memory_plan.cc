// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Above this many intervals one order is tried instead of ten: the time of an order grows with n^2.
constexpr size_t kFullPortfolio = 4096;  // compile time

enum class Fit { kFirst, kBest };

// Intervals with sizes rounded up to the alignment, and what the orders sort by.
struct Problem {
  std::span<const Interval> intervals;
  std::vector<int64_t> sizes;
  std::vector<int64_t> breadths;  // most bytes alive at a step of the interval
  int64_t lower_bound = 0;
  int64_t sum = 0;
};

absl::Status Malformed(size_t i, const Interval& interval) {
  return absl::InvalidArgumentError(
      absl::StrCat("memory plan: interval ", i, " lives [", interval.lower, ", ", interval.upper,
                   ") with ", interval.size, " bytes; need lower < upper and size >= 0"));
}

// Live bytes between consecutive times at which some life begins or ends. All times are keys.
std::map<int64_t, int64_t> LiveBytes(const Problem& p) {
  std::map<int64_t, int64_t> live;
  for (size_t i = 0; i < p.intervals.size(); ++i) {
    live[p.intervals[i].lower] += p.sizes[i];
    live[p.intervals[i].upper] -= p.sizes[i];
  }
  int64_t bytes = 0;
  for (auto& [time, value] : live) value = bytes += value;
  return live;
}

absl::StatusOr<Problem> MakeProblem(std::span<const Interval> intervals, int64_t alignment) {
  if (alignment <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory plan: alignment is ", alignment, "; it must be positive"));
  }
  Problem p{intervals, {}, {}, 0, 0};
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& interval = intervals[i];
    if (interval.lower >= interval.upper || interval.size < 0) return Malformed(i, interval);
    const std::optional<int64_t> size = CheckedRoundUp(interval.size, alignment);
    const std::optional<int64_t> sum = size ? CheckedAdd(p.sum, *size) : std::nullopt;
    if (!sum) {
      return absl::ResourceExhaustedError("memory plan: the sum of all sizes exceeds 64 bits");
    }
    p.sizes.push_back(*size);
    p.sum = *sum;
  }
  const std::map<int64_t, int64_t> live = LiveBytes(p);
  for (const auto& [time, bytes] : live) p.lower_bound = std::max(p.lower_bound, bytes);
  for (const Interval& interval : intervals) {
    int64_t breadth = 0;
    for (auto it = live.find(interval.lower); it->first < interval.upper; ++it) {
      breadth = std::max(breadth, it->second);
    }
    p.breadths.push_back(breadth);
  }
  return p;
}

// Places intervals one by one, each into a gap between those already placed that live at its time.
MemoryPlan PlaceInOrder(const Problem& p, const std::vector<size_t>& order, Fit fit) {
  struct Placed {
    int64_t offset, end, lower, upper;
  };
  std::vector<Placed> placed;  // by offset
  MemoryPlan plan{std::vector<int64_t>(p.sizes.size(), 0), 0, p.lower_bound, p.sum, false};
  for (const size_t i : order) {
    const Interval& interval = p.intervals[i];
    const int64_t size = p.sizes[i];
    if (size == 0) continue;
    int64_t end = 0, best = -1, best_gap = 0;
    for (const Placed& other : placed) {
      if (other.lower >= interval.upper || interval.lower >= other.upper) continue;
      const int64_t gap = other.offset - end;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit == Fit::kFirst) break;
      }
      end = std::max(end, other.end);
    }
    const int64_t offset = best >= 0 ? best : end;
    plan.offsets[i] = offset;
    plan.peak = std::max(plan.peak, offset + size);
    const Placed mine{offset, offset + size, interval.lower, interval.upper};
    const auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), mine, by_offset), mine);
  }
  plan.optimal = plan.peak == p.lower_bound;
  return plan;
}

// The order by descending `key`; ties by life, then number.
template <typename Key>
std::vector<size_t> OrderBy(const Problem& p, Key key) {
  std::vector<size_t> order(p.sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto life = [&p](size_t i) { return p.intervals[i].upper - p.intervals[i].lower; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key_a = key(a), key_b = key(b);
    return key_a != key_b ? key_a > key_b : life(a) > life(b);
  });
  return order;
}

std::vector<std::vector<size_t>> Orders(const Problem& p) {
  const auto life = [&p](size_t i) { return p.intervals[i].upper - p.intervals[i].lower; };
  std::vector<std::vector<size_t>> orders;
  orders.push_back(OrderBy(p, [&p](size_t i) { return p.sizes[i]; }));
  if (p.sizes.size() > kFullPortfolio) return orders;
  orders.push_back(OrderBy(p, [&p](size_t i) { return std::pair(p.breadths[i], p.sizes[i]); }));
  orders.push_back(OrderBy(p, life));
  orders.push_back(OrderBy(
      p, [&](size_t i) { return static_cast<double>(p.sizes[i]) * static_cast<double>(life(i)); }));
  // Earliest start first; -1 - x turns the order round without overflow.
  orders.push_back(
      OrderBy(p, [&p](size_t i) { return std::pair(-1 - p.intervals[i].lower, p.sizes[i]); }));
  return orders;
}

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(std::span<const Interval> intervals, int64_t alignment) {
  KILN_ASSIGN_OR_RETURN(const Problem p, MakeProblem(intervals, alignment));
  std::optional<MemoryPlan> best;
  for (const std::vector<size_t>& order : Orders(p)) {
    for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
      MemoryPlan plan = PlaceInOrder(p, order, fit);
      if (!best || plan.peak < best->peak) best = std::move(plan);
      if (best->optimal) return *std::move(best);
    }
  }
  return *std::move(best);
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
