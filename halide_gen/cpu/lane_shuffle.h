// SPDX-License-Identifier: Apache-2.0
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_LANE_SHUFFLE_H_
#define KILN_HALIDE_GEN_CPU_LANE_SHUFFLE_H_

#include <Halide.h>

#include <cstddef>
#include <vector>

namespace kiln {

struct PickedLane {
  size_t vector = 0;
  int element = 0;  // of that vector
};

// The vector of these lanes of `vectors`: a shuffle of those that are needed, in the order in
// which they are; one of them itself if it is whole. Example: lanes {2, 0}, {0, 1} of (a, b, c) are
// shuffle(c, a, 0, lanes of c + 1). At least one lane.
Halide::Expr PickLanes(const std::vector<Halide::Expr>& vectors,
                       const std::vector<PickedLane>& lanes);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_LANE_SHUFFLE_H_
