// SPDX-License-Identifier: Apache-2.0
// When a kernel may write its outputs around the caches (LaunchContext::non_temporal).
//
// An ordinary store reads the line it writes. For results that do not stay in the cache that is
// traffic for nothing; for those that do, writing past it would make the next reader wait.
#ifndef KILN_EXEC_SUPPORT_NON_TEMPORAL_H_
#define KILN_EXEC_SUPPORT_NON_TEMPORAL_H_

#include <cstddef>
#include <span>

#include "exec/support/subdomains.h"
#include "kernel/abi.h"

namespace kiln {

// Whether what a launch walks is more than the last-level cache holds, and an eighth of it and more
// is results. `operands` are inputs, then outputs.
bool ExceedsCache(std::span<const OperandShape> operands, size_t inputs);

// Whether all outputs are of whole lines and none lies where an input does: such lines are in the
// cache already. Likewise inputs, then outputs.
bool MayStoreNonTemporal(std::span<const BufferArg> operands, size_t inputs);

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_NON_TEMPORAL_H_
