// SPDX-License-Identifier: Apache-2.0
// Code for x86-64 processors: Halide and its LLVM make assembly, which is completed and linked.
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_BACKEND_H_
#define KILN_HALIDE_GEN_CPU_BACKEND_H_

#include "halide_gen/common/backend.h"

namespace kiln {

extern const Backend kCpuBackend;

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_BACKEND_H_
