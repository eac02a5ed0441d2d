// SPDX-License-Identifier: Apache-2.0
// A schedule as a picture in text: its loops, where each stage lives, how each operand is read, and
// what it is expected to cost.
//
// Softmax over rows of 768:
//   row_reduction step=64 task=4096 stored=1
//   tasks of about 4096 elements; steps of 64 elements are 4 vectors
//   for each row
//     s0   [a] = max over b  64 lanes, which fold at the end of a row; loops over the row wait ...
//     s1   [a, b]  stored
//     s2   [a] = add over b  64 lanes, which fold at the end of a row; loops over the row wait ...
//     out0 [a, b]
//   reads
//     in0  by s0 along vectors, by s1 along vectors
//   price of a = 1000, b = 768: 410 us; memory 98, compute 270, which overlap; stalls 142
#ifndef KILN_SCHEDULE_PICTURE_H_
#define KILN_SCHEDULE_PICTURE_H_

#include <cstdint>
#include <span>
#include <string>

#include "kernel/kernel.h"
#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace kiln {

// For a kernel that the schedule suits; one extent per dim. Pure.
std::string Picture(const Kernel& kernel, std::span<const int64_t> extents,
                    const Schedule& schedule, const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_PICTURE_H_
