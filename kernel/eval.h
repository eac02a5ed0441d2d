// SPDX-License-Identifier: Apache-2.0
// EvalScalar computes one element of a primitive expression: the meaning of scalar_expr.h, word for
// word and bit for bit. Slow and plain; the opinion that tests compare executors with.
//
//   std::vector<uint64_t> scratch;
//   const auto leaf = [&](ExprId id, const uint64_t* values) { return LeafBits(expr.node(id)); };
//   uint64_t bits = EvalScalar(expr, leaf, scratch);
//
// Values travel as kConst holds them: float bits, integers sign-extended, bool 0 or 1.
#ifndef KILN_KERNEL_EVAL_H_
#define KILN_KERNEL_EVAL_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernel/kernel.h"

namespace kiln {

// The value of leaf `id` (kRead, kParam, kIndex, kExtent; never kConst). values[i] is that of each
// earlier node, so that a loaded index can be looked up. It is asked for reads under a false guard
// too and may return anything for them.
using LeafFn = absl::FunctionRef<uint64_t(ExprId id, const uint64_t* values)>;

// The root's value. Function nodes must have been expanded (math.h); they give 0. `scratch` is
// reused between calls.
uint64_t EvalScalar(const ScalarExpr& expr, LeafFn leaf, std::vector<uint64_t>& scratch);

// combine(a, b) of a reduction, and its identity, on bits of `type`.
uint64_t Combine(ReduceOp op, DType type, uint64_t a, uint64_t b);
uint64_t Identity(ReduceOp op, DType type);

}  // namespace kiln

#endif  // KILN_KERNEL_EVAL_H_
