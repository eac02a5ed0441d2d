// SPDX-License-Identifier: Apache-2.0
// Searches for one capacity race: how long a search takes hangs on its static order, by factors of
// thousands, and no order is the best for all parts.
//
// The orders sort, descending, by life (W), area (A) and the fullest section lived in (T): WAT, TAW
// and TWA, after MiniMalloc. The one that decides with the fewest visits wins, ties by its number
// in this list. So the result is the same whether the searches run in threads or in turn; in turn,
// they advance by rounds of twice the visits, so that the losers cost a small multiple of the
// winner.
#ifndef KILN_EXEC_MEMORY_RACE_H_
#define KILN_EXEC_MEMORY_RACE_H_

#include <cstdint>

#include "exec/memory/budget.h"
#include "exec/memory/part.h"
#include "exec/memory/search.h"

namespace kiln {

struct RaceResult {
  CanonicalSearch::State state = CanonicalSearch::State::kOpen;
  Packing packing;       // after kFits
  int64_t needed = 0;    // after kTooSmall: no packing has a smaller peak
  int64_t visits = 0;    // of the searches, had they run evenly until one decided
  int64_t nodes = 0;     // of the winner; of all where none won
  bool stopped = false;  // by budget.stop: neither visits nor state can be relied on to repeat
};

// Of `budget`, `stop` and `for_each` count.
RaceResult RaceOrders(const PlanPart& part, int64_t capacity, int64_t visits,
                      const PlanBudget& budget);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_RACE_H_
