// SPDX-License-Identifier: Apache-2.0
// A slow path that few operands need becomes a branch, taken where a vector has such an operand.
//
// Functions with a fast path for usual operands select between its value and the slow one
// (kernel/math_f32.cc). Example:
//   let a = in0[...], let b = slow(a)
//   select(a <= x16(8192.0f), fast(a), b)
// becomes
//   let a = in0[...]
//   if_then_else(all lanes of (a <= x16(8192.0f)), fast(a),
//                let b = slow(a) in select(a <= x16(8192.0f), fast(a), b))
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_SLOW_PATHS_H_
#define KILN_HALIDE_GEN_CPU_SLOW_PATHS_H_

#include <Halide.h>

#include "halide_gen/cpu/masks.h"

namespace kiln {

// A lowering pass over vectors. The second value is taken to be the rare one, if it takes some
// forty operations that nothing else takes.
class SlowPaths : public MaskReader {
 protected:
  using MaskReader::visit;
  Halide::Expr visit(const Halide::Internal::Select* op) override;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_SLOW_PATHS_H_
