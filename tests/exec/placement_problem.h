// SPDX-License-Identifier: Apache-2.0
// Problems for the placer, written by hand: accesses to whole buffers of 100 bytes.
#ifndef KILN_TESTS_EXEC_PLACEMENT_PROBLEM_H_
#define KILN_TESTS_EXEC_PLACEMENT_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "exec/placement.h"

namespace kiln {

struct HandProblem : PlacementProblem {
  int32_t Add(Space space, int64_t bytes = 100) {
    buffers.push_back({space, bytes});
    return static_cast<int32_t>(buffers.size()) - 1;
  }
  Access Whole(int32_t b) const { return {b, 0, buffers[static_cast<size_t>(b)].bytes, true, 4}; }
  Step& Do(const std::vector<int32_t>& reads, const std::vector<int32_t>& writes,
           bool view = false) {
    Step& step = steps.emplace_back();
    step.view = view;
    for (const int32_t b : reads) step.reads.push_back(Whole(b));
    for (const int32_t b : writes) step.writes.push_back(Whole(b));
    return step;
  }
};

}  // namespace kiln

#endif  // KILN_TESTS_EXEC_PLACEMENT_PROBLEM_H_
