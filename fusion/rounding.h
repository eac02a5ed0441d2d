// SPDX-License-Identifier: Apache-2.0
// Where kernels round to 16-bit floats.
//
// A graph's f16 and bf16 values are rounded to their type at the output of every op, also where the
// next op of the same kernel reads them, so that fusion changes no bit. Kernels compute in f32, so
// that rounding is a step of the expression (kRoundTo), left out where the value is one of the
// type's already: it was read as such, is the negative of one, the larger of two, and so on.
#ifndef KILN_FUSION_ROUNDING_H_
#define KILN_FUSION_ROUNDING_H_

#include <functional>

#include "base/dtype.h"
#include "kernel/scalar_expr.h"

namespace kiln {

// The stored type of what a read node reads.
using TypeOfRead = std::function<DType(const ExprNode& read)>;

// `value` as a value of `type`: itself for all types but f16 and bf16, and where it is one already.
Ex RoundedTo(Ex value, DType type, const TypeOfRead& type_of);

}  // namespace kiln

#endif  // KILN_FUSION_ROUNDING_H_
