// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/minimise.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "exec/memory/race.h"
#include "exec/memory/search.h"

namespace kiln {
namespace {

using State = CanonicalSearch::State;

constexpr int64_t kFirstVisits = 1 << 16;  // compile time: for each capacity of the first round
constexpr int64_t kMoreVisits = 4;         // compile time: factor from round to round
constexpr int kResolution = 12;  // compile time: bisection ends within peak / 2^12 of what is open

class Minimiser {
 public:
  Minimiser(const PlanPart& part, int64_t enough, int64_t visits, const PlanBudget& budget,
            Packing& best)
      : part_(part), enough_(enough), most_visits_(visits), budget_(budget), best_(best) {
    result_.bound = part.lower_bound;
    for (const Interval& interval : part.intervals) unit_ = std::gcd(unit_, interval.size);
  }

  Minimised Run() {
    for (int64_t visits = kFirstVisits; !Done(); visits *= kMoreVisits) {
      const int64_t least = std::max(enough_, result_.bound);
      if (Ask(least, visits) == State::kOpen && !budget_.capacity) Bisect(least, visits);
    }
    return result_;
  }

 private:
  bool Done() const {
    return best_.peak <= std::max(enough_, result_.bound) || result_.visits >= most_visits_ ||
           result_.stopped || (budget_.capacity && result_.bound > *budget_.capacity);
  }

  // Between `low`, which is open, and the best peak. Peaks are multiples of the unit.
  void Bisect(int64_t low, int64_t visits) {
    while (!Done() && best_.peak - low > std::max(unit_, best_.peak >> kResolution)) {
      const int64_t middle = low + (best_.peak - low) / 2;
      const int64_t capacity = std::max(middle - middle % unit_, low + unit_ - low % unit_);
      if (Ask(capacity, visits) != State::kFits) low = std::max(capacity, result_.bound);
    }
  }

  State Ask(int64_t capacity, int64_t visits) {
    visits = std::min(visits, most_visits_ - result_.visits);
    RaceResult race = RaceOrders(part_, capacity, visits, budget_);
    result_.visits += race.state == State::kOpen ? visits : race.visits;
    result_.nodes += race.nodes;
    result_.stopped |= race.stopped;
    if (race.state == State::kFits) best_ = std::move(race.packing);
    if (race.state == State::kTooSmall) result_.bound = std::max(result_.bound, race.needed);
    return race.state;
  }

  const PlanPart& part_;
  const int64_t enough_, most_visits_;
  const PlanBudget& budget_;
  Packing& best_;
  int64_t unit_ = 0;  // of all sizes
  Minimised result_;
};

}  // namespace

Minimised Minimise(const PlanPart& part, int64_t enough, int64_t visits, const PlanBudget& budget,
                   Packing& best) {
  return Minimiser(part, enough, visits, budget, best).Run();
}

}  // namespace kiln
