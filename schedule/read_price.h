// SPDX-License-Identifier: Apache-2.0
// What reads cost beside walking every operand once: elements that vectors find one by one,
// operands that lie in another order than loops run, and those that are read again.
#ifndef KILN_SCHEDULE_READ_PRICE_H_
#define KILN_SCHEDULE_READ_PRICE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/loop_counts.h"
#include "schedule/machine.h"

namespace kiln {

// Of expression `e`, whose nodes vary as VariesWith says: elements that are read one by one, which
// keep the units busy that compute, too. `bytes` of operands in all say in which cache they lie.
double GatherNs(const LoopCounts& counts, size_t e, const std::vector<uint64_t>& varies,
                const Machine& machine, double bytes);

// True if neighbours in a vector of expression `e` are neighbours in memory where it reads `read`,
// or a few elements of the innermost dim apart.
bool ReadsAlongLanes(const LoopCounts& counts, size_t e, const ExprNode& read);

// Bytes of operands that the loop of each pass (LoopCounts::PassOf) reads, each once, and writes.
std::vector<double> BytesByPass(const LoopCounts& counts);

// Of all expressions: operands that are transposed in tiles, or read more than once.
double OddReadsNs(const LoopCounts& counts, const Machine& machine, double bytes);

}  // namespace kiln

#endif  // KILN_SCHEDULE_READ_PRICE_H_
