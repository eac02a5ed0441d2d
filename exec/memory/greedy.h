// SPDX-License-Identifier: Apache-2.0
// Greedy packings: intervals in some order, each into a gap between those before it.
#ifndef KILN_EXEC_MEMORY_GREEDY_H_
#define KILN_EXEC_MEMORY_GREEDY_H_

#include <cstdint>
#include <functional>

#include "exec/memory/part.h"

namespace kiln {

// The packing with the least peak of ten: by size, fullest section, life, area and start, each
// first-fit and best-fit; ties go to the earlier one, and the first whose peak is at most `enough`
// ends the search. O(n^2) each. Large parts are packed by size, first-fit, alone; once `stop`,
// which may be null, is true, what is left of them lies one above the other.
Packing PackGreedily(const PlanPart& part, int64_t enough, const std::function<bool()>& stop);

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_GREEDY_H_
