// SPDX-License-Identifier: Apache-2.0
// What code generation is made of, which is part of every kernel's cache key. No Halide here.
//
// The library and the worker are built with the same; a worker that says another build id in its
// hello is refused.
#ifndef KILN_HALIDE_GEN_COMMON_BUILD_ID_H_
#define KILN_HALIDE_GEN_COMMON_BUILD_ID_H_

#include "base/target.h"

namespace kiln {

// Hexadecimal digest over all sources that can change a kernel's bytes: halide_gen/, kernel/ and
// schedule/.
extern const char kCodegenBuildId[];

// The same over what can change the bytes of kernels for this device: what is part of their keys.
const char* CodegenBuildId(DeviceKind device);

// "halide 21.0.0 <digest of libHalide>"; LLVM is inside libHalide.
extern const char kCodegenCompiler[];

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_BUILD_ID_H_
