// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/greedy.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace kiln {
namespace {

// Above this many intervals one order is tried instead of ten: the time of an order grows with n^2.
constexpr size_t kFullPortfolio = 4096;  // compile time
constexpr size_t kStopEvery = 256;       // speed: intervals between two questions whether to stop

enum class Fit { kFirst, kBest };

// Places intervals one by one, each into a gap between those already placed that live at its time.
Packing PlaceInOrder(const PlanPart& part, const std::vector<size_t>& order, Fit fit,
                     const std::function<bool()>& stop) {
  struct Placed {
    int64_t offset, end, lower, upper;
  };
  std::vector<Placed> placed;  // by offset
  placed.reserve(part.size());
  Packing packing{std::vector<int64_t>(part.size(), 0)};
  for (const size_t i : order) {
    const Interval& interval = part.intervals[i];
    if (stop && placed.size() % kStopEvery == 0) packing.stopped = packing.stopped || stop();
    if (packing.stopped) {
      packing.offsets[i] = std::exchange(packing.peak, packing.peak + interval.size);
      continue;
    }
    int64_t end = 0, best = -1, best_gap = 0;
    for (const Placed& other : placed) {
      if (other.lower >= interval.upper || interval.lower >= other.upper) continue;
      const int64_t gap = other.offset - end;
      if (gap >= interval.size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit == Fit::kFirst) break;
      }
      end = std::max(end, other.end);
    }
    const int64_t offset = best >= 0 ? best : end;
    packing.offsets[i] = offset;
    packing.peak = std::max(packing.peak, offset + interval.size);
    const Placed mine{offset, offset + interval.size, interval.lower, interval.upper};
    const auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), mine, by_offset), mine);
  }
  return packing;
}

// The order by descending `key`; ties by life, then start, then number.
template <typename Key>
std::vector<size_t> OrderBy(const PlanPart& part, Key key) {
  using Entry = std::pair<decltype(key(0)), double>;
  std::vector<Entry> keys;
  for (size_t i = 0; i < part.size(); ++i) keys.emplace_back(key(i), part.life(i));
  std::vector<size_t> order(part.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  return order;
}

struct GreedyOrder {
  const char *first_fit, *best_fit;  // names
  std::vector<size_t> (*make)(const PlanPart& part);
};

constexpr GreedyOrder kOrders[] = {
    {"size first-fit", "size best-fit",
     [](const PlanPart& part) {
       return OrderBy(part, [&](size_t i) { return part.intervals[i].size; });
     }},
    {"breadth first-fit", "breadth best-fit",
     [](const PlanPart& part) {
       return OrderBy(part, [&](size_t i) {
         return std::pair(part.FullestSection(i), part.intervals[i].size);
       });
     }},
    {"life first-fit", "life best-fit",
     [](const PlanPart& part) { return OrderBy(part, [&](size_t i) { return part.life(i); }); }},
    {"area first-fit", "area best-fit",
     [](const PlanPart& part) {
       return OrderBy(part, [&](size_t i) {
         return static_cast<double>(part.intervals[i].size) * part.life(i);
       });
     }},
    {"start first-fit", "start best-fit",
     [](const PlanPart& part) {
       // Earliest start first; -1 - x turns the order round without overflow.
       return OrderBy(part, [&](size_t i) {
         return std::pair(-1 - part.intervals[i].lower, part.intervals[i].size);
       });
     }},
};

}  // namespace

Packing PackGreedily(const PlanPart& part, int64_t enough, const std::function<bool()>& stop) {
  const bool large = part.size() > kFullPortfolio;
  Packing best;
  for (const GreedyOrder& row : kOrders) {
    const std::vector<size_t> order = row.make(part);
    for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
      Packing packing = PlaceInOrder(part, order, fit, large ? stop : nullptr);
      packing.order = fit == Fit::kFirst ? row.first_fit : row.best_fit;
      if (best.offsets.empty() || packing.peak < best.peak) best = std::move(packing);
      if (best.peak <= enough || large) return best;
    }
  }
  return best;
}

}  // namespace kiln
