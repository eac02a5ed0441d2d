// SPDX-License-Identifier: Apache-2.0
// How much caches hold, for the executor's own choices: which loops run a library operator, how far
// batches are tiled, which stores bypass the caches.
//
// These are sizes that usual servers have, not the host's: an implementation also decides the order
// of sums, and two machines of one level shall choose the same. Kernels are scheduled by the
// machine description instead (schedule/machine.h).
#ifndef KILN_EXEC_SUPPORT_CACHES_H_
#define KILN_EXEC_SUPPORT_CACHES_H_

#include <cstdint>

namespace kiln {

// The second level, of one core.
inline constexpr int64_t kL2Bytes = int64_t{1} << 20;  // speed

// The last level: what each core has of it, and what there is in all. Machines that have more share
// it with others.
inline constexpr int64_t kL3ShareBytes = int64_t{4} << 20;  // speed
inline constexpr int64_t kL3Bytes = int64_t{32} << 20;      // speed

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_CACHES_H_
