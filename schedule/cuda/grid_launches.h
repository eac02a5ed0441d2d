// SPDX-License-Identifier: Apache-2.0
// The launches of a schedule on a GPU, and what each of them does: threads, bytes and instructions.
//
// All outputs are one launch; or, of kernels that make rows or tiles, those that span the same
// dims, each launch with the reductions that it needs; or each stored stage and each output is one
// (LoopSummary::Nests). Each level of each reduction may be one too (Grid::levels). The template's
// fields are not read, only its LoopSummary.
//
// Example: relu over [a] with a = 4096 and `streaming vector=4 columns=128` is one launch of 1024
// threads in blocks of 128, each of which waits for one round of loads; it walks 32 KiB.
#ifndef KILN_SCHEDULE_CUDA_GRID_LAUNCHES_H_
#define KILN_SCHEDULE_CUDA_GRID_LAUNCHES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernel.h"
#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace kiln {

struct GridLaunch {
  std::vector<size_t> makes;        // expressions, numbered as by Expressions(kernel)
  double threads = 0, block = 128;  // with those that are idle at the ends of rows
  double registers = 24;            // of a thread
  double shared_bytes = 0;          // of a block
  double independent = 1;           // elements that a thread computes side by side
  double rounds = 0;             // of loads that a thread has on their way together, of all threads
  double walked = 0;             // bytes of operands and of what is between launches, each once
  double again = 0, near = 0;    // read beyond that, from the caches: the second-level, the first
  double work_ns = 0;            // of computing, where all lanes are busy
  double expensive_repeats = 1;  // as in Price
};

// For a kernel that the schedule suits; one extent per dim. Pure.
std::vector<GridLaunch> GridLaunchesOf(const Kernel& kernel, std::span<const int64_t> extents,
                                       const Schedule& schedule, const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_GRID_LAUNCHES_H_
