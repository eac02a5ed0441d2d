// SPDX-License-Identifier: Apache-2.0
// Private: has Halide.h.
// Values whose reads of stages vanish when Halide simplifies them.
//
// Halide infers bounds from definitions as they are written and lowers them simplified. Where a
// stage is read only by what folds away (s == s of integers, s & 0, a select with equal arms), it
// is never produced; if it reads another stage that still is, bounds inference follows a consumer
// without loops and ends by SIGSEGV (Halide 21, BoundsInference of the outermost loop). So a value
// is defined as what is left of it.
#ifndef KILN_HALIDE_GEN_COMMON_VANISHING_READS_H_
#define KILN_HALIDE_GEN_COMMON_VANISHING_READS_H_

#include <Halide.h>

namespace kiln {

// `value`, or what Halide makes of it if it reads fewer Funcs then. Equal in every bit.
Halide::Expr WithoutVanishingReads(const Halide::Expr& value);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_VANISHING_READS_H_
