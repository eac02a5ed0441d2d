// SPDX-License-Identifier: Apache-2.0
// What the loops of a kernel take to compute: their operations, what waits for what, and what is
// done in vain where rows are short.
#ifndef KILN_SCHEDULE_COMPUTE_PRICE_H_
#define KILN_SCHEDULE_COMPUTE_PRICE_H_

#include <vector>

#include "schedule/loop_counts.h"
#include "schedule/machine.h"
#include "schedule/work.h"

namespace kiln {

struct ComputePrice {
  double ns = 0;
  std::vector<double> by_pass;   // operations of the loop that makes each pass (LoopCounts::PassOf)
  double latency_ns = 0;         // more, where operations wait for those before
  double short_rows_ns = 0;      // more, where rows are short, or no whole tiles
  double jumps_ns = 0;           // of lines of memory that are not next to the one before
  double tile_loops = 0;         // that start, over blocks of rows
  double expensive_repeats = 1;  // see Price
};

// `bytes` of operands in all say in which cache they lie. Pure.
ComputePrice ComputePriceOf(const LoopCounts& counts, const Machine& machine, double bytes);

}  // namespace kiln

#endif  // KILN_SCHEDULE_COMPUTE_PRICE_H_
