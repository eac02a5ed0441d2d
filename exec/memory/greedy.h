// SPDX-License-Identifier: Apache-2.0
// Greedy packings: intervals in some order, each into a gap between those before it.
#ifndef KILN_EXEC_MEMORY_GREEDY_H_
#define KILN_EXEC_MEMORY_GREEDY_H_

#include <cstdint>

#include "exec/memory/part.h"

namespace kiln {

// The packing with the least peak of ten: by size, fullest section, life, area and start, each
// first-fit and best-fit; ties go to the earlier one, and the first whose peak is at most `enough`
// ends the search. Large parts are packed by size, first-fit, alone. O(n^2) each.
Packing PackGreedily(const PlanPart& part, int64_t enough);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_GREEDY_H_
