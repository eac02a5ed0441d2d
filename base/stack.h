// SPDX-License-Identifier: Apache-2.0
// Recursion over a host's graph, on a thread of the host's, whose stack may be small.
//
//   KILN_RETURN_IF_ERROR(WithStack(4096 * depth, [&] { group = EmitGroup(axes, outputs); }));
#ifndef KILN_BASE_STACK_H_
#define KILN_BASE_STACK_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace kiln {

// Bytes below the caller's frame that its thread's stack still has.
size_t StackLeft();

// Calls `function`, which asks nothing of the thread that it is on (locals, NoThreads): here where
// the stack has that many bytes left, else on a thread of ours (8 MiB), which is joined. What it
// throws is thrown here. kResourceExhausted: there is neither; nothing was called.
absl::Status WithStack(size_t bytes, const std::function<void()>& function);

}  // namespace kiln

#endif  // KILN_BASE_STACK_H_
