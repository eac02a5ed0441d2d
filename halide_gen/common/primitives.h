// SPDX-License-Identifier: Apache-2.0
// The primitives of ScalarExpr as Halide expressions, with exactly the meaning of
// kernel/scalar_expr.h. Private: has Halide.h.
//
// Halide's own operators differ in places: signed overflow is undefined, integer division rounds
// down, casts of floats that do not fit are undefined, min and max lose NaN, and -x is 0 - x. Code
// is compiled with the target feature strict_float, which keeps the optimisers of Halide and LLVM
// from changing a bit of a float.
#ifndef KILN_HALIDE_GEN_COMMON_PRIMITIVES_H_
#define KILN_HALIDE_GEN_COMMON_PRIMITIVES_H_

#include <Halide.h>

#include "base/dtype.h"
#include "kernel/kernel.h"
#include "kernel/scalar_expr.h"

namespace kiln {

// The type of values in expressions, and of elements in memory: bool is a byte there, bf16 its
// bits.
Halide::Type ValueType(DType type);
Halide::Type StorageType(DType type);

// An element as it is in memory -> its value (f32 for 16-bit floats), and back: rounds f32 to
// 16-bit floats.
Halide::Expr FromStorage(const Halide::Expr& stored, DType type);
Halide::Expr ToStorage(const Halide::Expr& value, DType type);

// How a device converts 16-bit floats, where it has instructions that these expressions are not.
struct HalfConversions {
  Halide::Expr (*from_storage)(const Halide::Expr& stored, DType type);
  Halide::Expr (*to_storage)(const Halide::Expr& value, DType type);
  Halide::Expr (*round)(const Halide::Expr& value, DType type);  // kRoundTo
};

// A constant from its bits as ExprNode::imm holds them.
Halide::Expr Constant(DType type, uint64_t bits);

// kCast.
Halide::Expr Convert(const Halide::Expr& value, DType from, DType to);

// Any op that is neither a leaf nor a function. `args` are the operands' values, of type `from`.
Halide::Expr Primitive(const ExprNode& node, const Halide::Expr args[3], DType from);

// One step of a reduction, and the exact identity it starts with. Values are as in memory: bool is
// a byte.
Halide::Expr Accumulate(ReduceOp op, DType type, const Halide::Expr& acc,
                        const Halide::Expr& element);
Halide::Expr StartValue(ReduceOp op, DType type);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_PRIMITIVES_H_
