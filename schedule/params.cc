// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/scheduler.h"

namespace kiln {

bool SizeClass::Contains(std::span<const int64_t> extents) const {
  return std::equal(extents.begin(), extents.end(), at_most.begin(), at_most.end(),
                    [](int64_t extent, int64_t limit) { return extent <= limit; });
}

const MachineProfile& ProfileFor(IsaLevel isa) {
  static constexpr MachineProfile kV3;
  static constexpr MachineProfile kV4 = {.isa = IsaLevel::kV4, .vector_bytes = 64};
  return isa == IsaLevel::kV4 ? kV4 : kV3;
}

}  // namespace kiln
