// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/race.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <numeric>
#include <vector>

namespace kiln {
namespace {

using State = CanonicalSearch::State;

constexpr int64_t kFirstRound = 1 << 12;  // compile time: visits of each order in the first round
constexpr int64_t kSlice = 1 << 14;       // compile time: visits between two looks at the others

struct StaticOrder {
  const char* name;
  std::array<double, 3> (*key)(double life, double area, double total);
};
constexpr StaticOrder kOrders[] = {
    {"exact WAT",
     [](double w, double a, double t) {
       return std::array{w, a, t};
     }},
    {"exact TAW",
     [](double w, double a, double t) {
       return std::array{t, a, w};
     }},
    {"exact TWA",
     [](double w, double a, double t) {
       return std::array{t, w, a};
     }},
};
constexpr size_t kOrderCount = std::size(kOrders);

std::vector<size_t> MakeOrder(const PlanPart& part, const StaticOrder& row) {
  std::vector<std::array<double, 3>> keys;
  for (size_t i = 0; i < part.size(); ++i) {
    const double life = part.life(i), size = static_cast<double>(part.intervals[i].size);
    keys.push_back(row.key(life, life * size, static_cast<double>(part.FullestSection(i))));
  }
  std::vector<size_t> order(part.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  return order;
}

class Race {
 public:
  Race(const PlanPart& part, int64_t capacity, const PlanBudget& budget) : budget_(budget) {
    for (const StaticOrder& row : kOrders)
      searches_.emplace_back(part, MakeOrder(part, row), capacity);
  }

  RaceResult Run(int64_t visits) {
    const int64_t most = visits / static_cast<int64_t>(kOrderCount);
    for (int64_t round = kFirstRound;; round *= 2) {
      Round(std::min(round, most));
      RaceResult result = Result();
      if (result.state != State::kOpen || result.stopped || round >= most) return result;
    }
  }

 private:
  // Each search runs up to `limit`, or until another has decided with fewer visits.
  void Round(int64_t limit) {
    const auto advance = [this, limit](size_t k) {
      CanonicalSearch& search = searches_[k];
      while (search.visits() < limit && search.visits() <= fewest_ && !stopped_) {
        if (search.Run(std::min(limit, search.visits() + kSlice)) != State::kOpen) {
          LowerFewest(search.visits());
          return;
        }
        if (budget_.stop && budget_.stop()) stopped_ = true;
      }
    };
    if (budget_.for_each) {
      budget_.for_each(kOrderCount, advance);
    } else {
      for (size_t k = 0; k < kOrderCount; ++k) advance(k);
    }
  }

  void LowerFewest(int64_t visits) {
    int64_t fewest = fewest_;
    while (visits < fewest && !fewest_.compare_exchange_weak(fewest, visits)) {
    }
  }

  // No search that decides with fewer visits, or as many, was left early: the winner is the same
  // whoever ran first.
  RaceResult Result() const {
    RaceResult result;
    result.stopped = stopped_;
    const CanonicalSearch* winner = nullptr;
    for (const CanonicalSearch& search : searches_) {
      result.visits += search.visits();
      result.nodes += search.nodes();
      if (search.state() == State::kOpen) continue;
      if (winner == nullptr || search.visits() < winner->visits()) winner = &search;
    }
    if (winner == nullptr) return result;
    result.state = winner->state();
    result.visits = winner->visits() * static_cast<int64_t>(kOrderCount);
    result.nodes = winner->nodes();
    if (result.state == State::kTooSmall) result.needed = winner->needed();
    if (result.state == State::kFits) {
      result.packing.offsets = winner->offsets();
      result.packing.peak = winner->peak();
      result.packing.order = kOrders[winner - searches_.data()].name;
    }
    return result;
  }

  const PlanBudget& budget_;
  std::vector<CanonicalSearch> searches_;
  std::atomic<int64_t> fewest_ = std::numeric_limits<int64_t>::max();  // visits of a decided search
  std::atomic<bool> stopped_ = false;
};

}  // namespace

RaceResult RaceOrders(const PlanPart& part, int64_t capacity, int64_t visits,
                      const PlanBudget& budget) {
  return Race(part, capacity, budget).Run(visits);
}

}  // namespace kiln
