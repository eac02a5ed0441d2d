// SPDX-License-Identifier: Apache-2.0
// Buffer donation: which inputs of a plan may lie where an output is written.
//
// Callers bind an output over an input to update a state. That is right as long as no launch reads
// of the input what an earlier launch has overwritten. What a launch writes to the output's memory
// counts, not the output alone: temporaries lie there too (placement.h).
//
//   t = matmul(x, w); y = sub(x, exp(t))    t lies in y: y may not be x
//   y = sub(x, g)                           y may be x, if the kernel works in place
//   t = exp(x); y = softmax(t)              y may overlap x in any way, unless t lies in y
//
// Whatever is not known to be right is refused; callers then give the run a private copy of the
// input.
#ifndef KILN_EXEC_DONATION_H_
#define KILN_EXEC_DONATION_H_

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "exec/placement.h"

namespace kiln {

class Donations {
 public:
  Donations() = default;
  Donations(const PlacementProblem& problem, const Placement& placement);

  // Buffers of the problem: an input and an output.

  // No launch that reads the input comes after one that writes the output's memory, nor is one the
  // other: the two may overlap in any way.
  bool ReadsEndBeforeWrites(int32_t input, int32_t output) const;
  // The same, but for one launch that reads the input last, writes the output's memory first and
  // may work in place: the two may be one memory, from the first byte on.
  bool WritesInPlace(int32_t input, int32_t output) const;

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // The launch that reads an input last, or writes an output first.
  struct Use {
    int64_t step = kNever;  // in the order of the launches
    int operands = 0;       // of the launch that lie in this memory
    int32_t operand = 0;
    int64_t begin = 0, end = 0, item = 1;
    bool dense = true;
  };
  const Use& use(int32_t buffer) const { return uses_[static_cast<size_t>(buffer)]; }

  std::vector<Use> uses_;                                           // per buffer
  std::vector<std::vector<std::pair<int32_t, int32_t>>> in_place_;  // in the order of the launches
};

}  // namespace kiln

#endif  // KILN_EXEC_DONATION_H_
