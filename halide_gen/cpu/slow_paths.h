// SPDX-License-Identifier: Apache-2.0
// What few operands take and is much is computed where a vector has such an operand.
//
// Functions that are quick for usual operands only choose between two values (kernel/math_f32.cc).
// Example:
//   let a = in0[...], let b = much of a
//   select(a <= x16(8192.0f), little of a, b)
// becomes
//   let a = in0[...]
//   if_then_else(and of (a <= x16(8192.0f)), little of a,
//                let b = much of a in select(a <= x16(8192.0f), little of a, b))
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
