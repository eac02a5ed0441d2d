// SPDX-License-Identifier: Apache-2.0
// Random programs for the placer, and an executor that runs them on real memory: launches compute
// hashes of all they read, item by item, so that a byte which is overwritten too early shows in the
// outputs.
#ifndef KILN_TESTS_EXEC_RANDOM_PLACEMENT_H_
#define KILN_TESTS_EXEC_RANDOM_PLACEMENT_H_

#include <cstdint>
#include <random>
#include <vector>

#include "exec/placement.h"

namespace kiln {

inline constexpr int64_t kItem = 4;  // bytes of all elements

struct RandomPlacement {
  // Which items an access touches: all from begin to end, or `count` of each row from `from` on.
  struct Mask {
    int64_t row = 0, from = 0, count = 0;
  };
  struct Masks {
    std::vector<Mask> reads, writes;
  };
  PlacementProblem problem;
  std::vector<Masks> masks;    // per step
  std::vector<int64_t> parts;  // per repeat: what lies outside is touched in so many parts

  std::vector<int32_t> BuffersOf(PlacementProblem::Space space) const;
};

// Equal seeds give equal programs.
RandomPlacement MakeRandomPlacement(uint64_t seed);

// Contents of all outputs, one after the other. Every buffer has memory of its own.
std::vector<uint32_t> RunApart(const RandomPlacement& program);
// The same in the places and the order of a plan; places lie in bounds. `addresses`: per buffer, of
// inputs and outputs in the caller's memory, multiples of kItem; overlapping inputs hold what
// RunApart gives the first of them. Lanes run in a random order.
std::vector<uint32_t> RunPlaced(const RandomPlacement& program, const Placement& placement,
                                const std::vector<int64_t>& addresses, uint64_t seed);
// All inputs and outputs apart.
std::vector<int64_t> ApartAddresses(const PlacementProblem& problem);

}  // namespace kiln

#endif  // KILN_TESTS_EXEC_RANDOM_PLACEMENT_H_
