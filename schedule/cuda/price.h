// SPDX-License-Identifier: Apache-2.0
// The price of a kernel on a GPU.
//
// Each launch (grid_launches.h) starts, moves bytes and computes, of which the longer two overlap.
// It moves bytes as fast as their place lets it, DRAM or the second-level cache, but each round of
// loads that a thread waits for takes the latency, in a whole number of waves of blocks; it
// computes as fast as its threads keep multiprocessors busy, each of which has whole blocks.
//
// Example: relu over 16 M floats on an H100: 2 us to start, and 40 us for 134 MB at 3350 GB/s.
#ifndef KILN_SCHEDULE_CUDA_PRICE_H_
#define KILN_SCHEDULE_CUDA_PRICE_H_

#include <cstdint>
#include <span>
#include <string>

#include "schedule/price.h"
#include "schedule/schedule.h"

namespace kiln {

// DeviceModel::price.
Price CudaPriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
                  const Schedule& schedule);

// DeviceModel::picture: a line for each launch.
std::string CudaPicture(const Kernel& kernel, std::span<const int64_t> extents,
                        const Schedule& schedule, const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_PRICE_H_
