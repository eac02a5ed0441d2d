// SPDX-License-Identifier: Apache-2.0
// fma of vectors.
//
// Halide 21 has no fma of its own. It takes a call of an outside function over a vector apart, a
// call for every lane, unless the module that it begins with defines NAMExLANES for some number of
// lanes. Of calls of llvm.fma.f32 LLVM got five instructions a lane and had to find the vectors
// again: half and more of the time to compile a function, and scalar code where its budget for
// that ended. So that module gets definitions for vectors (vector_fma.ll).
//
//   Call::make(Float(32, 64), VectorFmaName(32), {a, b, c}, Call::PureExtern)
//
// Halide has no place to add them. It asks get_initial_module_for_target for the module, through
// the dynamic linker, which takes a program's definition of it before Halide's: vector_fma.cc
// defines it, calls Halide's and adds to what that returns. In a program where something else
// comes first, kernels with an fma do not link.
#ifndef KILN_HALIDE_GEN_COMMON_VECTOR_FMA_H_
#define KILN_HALIDE_GEN_COMMON_VECTOR_FMA_H_

namespace kiln {

// The outside function a * b + c, rounded once, of floats of 32 or 64 bits.
const char* VectorFmaName(int bits);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_VECTOR_FMA_H_
