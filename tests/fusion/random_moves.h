// SPDX-License-Identifier: Apache-2.0
// Random graphs of what moves elements: slices with steps of both signs, pads, concats, splits,
// transposes, reshapes, upsampling, gathers; with element-wise steps, casts and reductions between
// them; over static extents and over symbols that equations relate. Bounds come from extents too.
// Values are small integers in types that hold them, so that sums in any order are exact.
#ifndef KILN_TESTS_FUSION_RANDOM_MOVES_H_
#define KILN_TESTS_FUSION_RANDOM_MOVES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct RandomMoves {
  Graph graph;
  std::vector<Tensor> inputs;
};

// Equal seeds give equal graphs.
absl::StatusOr<RandomMoves> MakeRandomMoves(uint64_t seed);

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_RANDOM_MOVES_H_
