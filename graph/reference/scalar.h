// SPDX-License-Identifier: Apache-2.0
// Evaluates ScalarExpr one element at a time: floats in double, integers exactly.
#ifndef KILN_GRAPH_REFERENCE_SCALAR_H_
#define KILN_GRAPH_REFERENCE_SCALAR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernel/kernel.h"
#include "kernel/scalar_expr.h"

namespace kiln::reference {

// An element: `f` of a float type, `i` (sign- or zero-extended to 64 bits) of all others.
union Element {
  double f;
  int64_t i;
};

// kUnimplemented if `expr` uses what has no meaning here: parameters, coordinates, bit casts.
absl::Status CheckScalar(const ScalarExpr& expr);

// The value of the root, reads of input k giving inputs[k]. `scratch` has an element for each node,
// and is overwritten.
Element EvaluateScalar(const ScalarExpr& expr, std::span<const Element> inputs,
                       std::span<Element> scratch);

// acc = op(acc, x) for elements of `type`, except float add, which callers do wider; and the op's
// value of nothing.
Element Combine(ReduceOp op, DType type, Element acc, Element x);
Element IdentityOf(ReduceOp op, DType type);

// Wraps to the type's bits.
int64_t Wrap(DType type, int64_t value);

}  // namespace kiln::reference

#endif  // KILN_GRAPH_REFERENCE_SCALAR_H_
