// SPDX-License-Identifier: Apache-2.0
// What the element-wise templates of the CPU share: which kernels they accept, and where their
// loops may run.
#ifndef KILN_SCHEDULE_CPU_ELEMENTWISE_H_
#define KILN_SCHEDULE_CPU_ELEMENTWISE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/decision.h"
#include "kernel/kernel.h"
#include "schedule/analysis.h"
#include "schedule/machine.h"
#include "schedule/schedule.h"
#include "schedule/size_class.h"

namespace kiln {

// Yes for kernels without reductions whose outputs are dense over all dims, in their order.
Decision AcceptsElementwise(const Kernel& kernel);

// The dim, other than the innermost, along which most inputs that lie in another order than the
// outputs are contiguous; -1 if none does, or if stages are read at elements that may lie in other
// tiles.
int32_t TransposedDim(const Kernel& kernel);

// Innermost dims that can be collapsed into one loop, and the inputs that are expanded for it.
struct Collapsed {
  int64_t dims = 1;
  std::vector<int64_t> expanded;
};
// One dim, and the most that can.
std::vector<Collapsed> CollapsedFor(const Kernel& kernel, const SizeClass& sizes);

// Numbers of elements of a loop step that differ for rows of at most `row`: four vectors, two, one,
// and half a one, as far as the compile time of the kernel allows.
std::vector<int64_t> StepsFor(const Kernel& kernel, const Machine& machine, int64_t row);

// A schedule whose outputs may be written over the inputs that ElementwisePairs finds.
template <typename T>
Schedule InPlace(const Template& of, T fields, const Kernel& kernel) {
  Schedule schedule(of, std::move(fields));
  schedule.in_place = ElementwisePairs(kernel);
  return schedule;
}

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_ELEMENTWISE_H_
