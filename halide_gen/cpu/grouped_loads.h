// SPDX-License-Identifier: Apache-2.0
// Loads of elements that lie in groups near each other are loads of the groups, and shuffles.
//
// Where vectors run along two dims of which an input has the second first, neighbours come from a
// few places, in a pattern that is known. Halide computes an address for each lane. Example:
//   in0[ramp(0, 1, 8)/x8(2)*x8(n) + ramp(0, 1, 8) % x8(2) + x8(i)]
// becomes
//   concat_vectors(in0[ramp(i, 1, 2)], in0[ramp(n + i, 1, 2)], ...)
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_GROUPED_LOADS_H_
#define KILN_HALIDE_GEN_CPU_GROUPED_LOADS_H_

#include <Halide.h>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass. Loads with masks, and those of which groups would save little, are left as they
// are. Nothing is read before the first or behind the last element of a group.
class GroupedLoads : public MaskReader {
 protected:
  using MaskReader::visit;
  Halide::Expr visit(const Halide::Internal::Load* op) override;
  Halide::Expr visit(const Halide::Internal::Shuffle* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_GROUPED_LOADS_H_
