// SPDX-License-Identifier: Apache-2.0
#include "tools/group_kernel.h"

#include <algorithm>

namespace kiln {

const program::Thunk* KernelThunkOf(const Compiled& compiled, size_t group) {
  const std::vector<Group>& groups = compiled.grouping.groups;
  const auto is_kernel = [](const Group& one) { return one.kind == Group::Kind::kKernel; };
  if (!is_kernel(groups[group])) return nullptr;
  auto before =
      std::count_if(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(group), is_kernel);
  for (const program::Thunk& thunk : compiled.variant.program.regions(0).thunks())
    if (thunk.has_kernel() && before-- == 0) return &thunk;
  return nullptr;
}

}  // namespace kiln
