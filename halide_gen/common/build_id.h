// SPDX-License-Identifier: Apache-2.0
// What code generation is made of, as two constants that are part of every kernel's cache key. No
// Halide here.
//
// Both the library and the worker are built with them; a worker that says another build id in its
// hello is refused.
#ifndef KILN_HALIDE_GEN_COMMON_BUILD_ID_H_
#define KILN_HALIDE_GEN_COMMON_BUILD_ID_H_

namespace kiln {

// Hexadecimal digest over all sources that can change a kernel's bytes: halide_gen/, kernel/ and
// schedule/.
extern const char kCodegenBuildId[];

// "halide 21.0.0 <digest of libHalide>"; LLVM is inside libHalide.
extern const char kCodegenCompiler[];

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_BUILD_ID_H_
