// SPDX-License-Identifier: Apache-2.0
#include "kernel/canonical.h"

#include <utility>

#include "base/status_macros.h"
#include "kernel/canonical_flat.h"

namespace kiln {

absl::StatusOr<CanonicalKernel> Canonicalize(const Kernel& raw, std::span<const int64_t> extents) {
  using namespace canonical_internal;
  KILN_RETURN_IF_ERROR(Verify(raw));
  // Ordering makes x + y and y + x one node; how often that node is used tells more about the order
  // of the others.
  const Flat ordered = Order(Order(DivideDims(MergeDims(Flatten(raw)), extents)));
  KILN_ASSIGN_OR_RETURN(CanonicalKernel canonical, Emit(ordered));
  canonical.kernel.math = raw.math;
  KILN_RETURN_IF_ERROR(Verify(canonical.kernel));
  return canonical;
}

}  // namespace kiln
