// SPDX-License-Identifier: Apache-2.0
// The launch of a group in the Program that it became a part of. Copies between memories, parts of
// concats and views are launches too, so their numbers are not those of groups.
#ifndef KILN_TOOLS_GROUP_KERNEL_H_
#define KILN_TOOLS_GROUP_KERNEL_H_

#include <cstddef>

#include "compiler/compile_graph.h"

namespace kiln {

// Kernels run in the order of their groups. Null where the group is none.
const program::Thunk* KernelThunkOf(const Compiled& compiled, size_t group);

}  // namespace kiln

#endif  // KILN_TOOLS_GROUP_KERNEL_H_
