// SPDX-License-Identifier: Apache-2.0
// What the memory of this machine gives: the yardstick of a kernel that reads and writes so many
// bytes.
#ifndef KILN_BENCH_KERNELS_PROBE_H_
#define KILN_BENCH_KERNELS_PROBE_H_

#include <cstdint>

#include "exec/support/pool.h"

namespace kiln::bench {

// Seconds of the fastest of `runs` passes that read `read` bytes and write `written` ones, each
// once, on all members of `pool`: a copy of the smaller part, and plain reads or writes of what is
// left, with ordinary or streaming stores, whichever is faster.
double ProbeSeconds(int64_t read, int64_t written, int runs, Pool& pool);

}  // namespace kiln::bench

#endif  // KILN_BENCH_KERNELS_PROBE_H_
