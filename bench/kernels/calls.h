// SPDX-License-Identifier: Apache-2.0
// What a run of a Model costs beside the one kernel that it launches.
#ifndef KILN_BENCH_KERNELS_CALLS_H_
#define KILN_BENCH_KERNELS_CALLS_H_

#include <string>
#include <vector>

#include "compiler/machine_of.h"

namespace kiln::bench {

// For each graph that runs as a single call of one kernel: microseconds of Context::Run and of that
// call alone, with the very argument block of the run, in chunks that alternate; least and median
// chunk, their ratios, and the median of the differences between neighbouring chunks. Returns an
// exit code.
int PrintCalls(const std::vector<std::string>& graphs, const CompileOptions& options);

}  // namespace kiln::bench

#endif  // KILN_BENCH_KERNELS_CALLS_H_
