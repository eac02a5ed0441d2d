// SPDX-License-Identifier: Apache-2.0
// Whether a kernel's index arithmetic is of 32 bits, as that of the code is.
#ifndef KILN_HALIDE_GEN_COMMON_CHECK_INDICES_H_
#define KILN_HALIDE_GEN_COMMON_CHECK_INDICES_H_

#include "absl/status/status.h"
#include "kernel/kernel.h"

namespace kiln {

// kUnimplemented if an index has an offset, divisor or modulus beyond 32 bits, or a coefficient
// whose multiples for a few neighbouring lanes are.
absl::Status CheckIndices(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_CHECK_INDICES_H_
