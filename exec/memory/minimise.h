// SPDX-License-Identifier: Apache-2.0
// The least peak of one part that a budget finds.
//
// `bound` <= least possible peak <= `found`. Each round asks the search for a packing of `bound`
// bytes. Where its budget does not tell, it bisects between `bound` and `found`; what a search
// finds lowers `found`, what it refutes raises `bound` to the least capacity at which it would not
// have been cut. The next round has four times the budget for each capacity.
#ifndef KILN_EXEC_MEMORY_MINIMISE_H_
#define KILN_EXEC_MEMORY_MINIMISE_H_

#include <cstdint>

#include "exec/memory/budget.h"
#include "exec/memory/part.h"

namespace kiln {

struct Minimised {
  int64_t bound = 0;  // no packing of the part has a smaller peak
  int64_t visits = 0, nodes = 0;
  bool stopped = false;  // by budget.stop
};

// Improves `best` until its peak is at most `enough` or at the bound, or `visits` are spent, or
// budget.capacity is found to be too small. With a capacity that `enough` covers, nothing else is
// asked for.
Minimised Minimise(const PlanPart& part, int64_t enough, int64_t visits, const PlanBudget& budget,
                   Packing& best);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_MINIMISE_H_
