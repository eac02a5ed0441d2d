// SPDX-License-Identifier: Apache-2.0
// Kernels whose results leave the cache anyway write them past it.
//
// An ordinary store reads the line that it writes, which for large results is a third or a half of
// all that memory moves; a non-temporal store does not. Where a kernel has aligned stores to
// outputs (aligned_stores.h), its code is there twice: with ordinary stores, for memory that lies
// anywhere, and with non-temporal ones, which take no prefetches of what they write. k_argv takes
// the second where LaunchContext::non_temporal says that it may. Bits are the same. Example:
//   vmovaps %zmm0, (%rdi,%rax)      becomes vmovups in the first and vmovntps in the second
#ifndef KILN_HALIDE_GEN_CPU_NON_TEMPORAL_H_
#define KILN_HALIDE_GEN_CPU_NON_TEMPORAL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// An extent that aligned stores take to be a multiple, a power of two.
struct LineExtent {
  size_t dim;
  int64_t multiple;
};

// Names the prefetches of assembly as LLVM prints it (AT&T) for Halide: all are of the kind that
// bypasses the caches but for one way of the first, and loops read what they fetch again. One that
// stands there twice is made one, and left out beside non-temporal stores (prefetch.h).
std::string WithPrefetches(absl::string_view assembly);

// From assembly with aligned stores. Code without any, or with tables of jumps, only has its stores
// made ordinary. The entry looks at `extents` too, which come after `inputs` among its arguments.
std::string WithNonTemporalStores(absl::string_view assembly,
                                  std::span<const LineExtent> extents = {}, size_t inputs = 0);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_NON_TEMPORAL_H_
