// SPDX-License-Identifier: Apache-2.0
// The functions of kernels as the sweep knows them: operator, reference, bound.
#ifndef KILN_BENCH_ULP_FUNCTIONS_H_
#define KILN_BENCH_ULP_FUNCTIONS_H_

#include <span>

#include "kiln/base/dtype.h"
#include "kiln/kernel/scalar_expr.h"

namespace kiln::ulp {

struct Function {
  ScalarOp op;
  bool has_operator;  // a graph operator of the same name; else only kernels know it
  double (*quick)(double);
  long double (*exact)(long double);
  double bound32, bound64;  // in units of the last place
};

// All functions of one operand.
std::span<const Function> Functions();

// |got - want| in units of the last place of `want` in `type`; infinite where one is NaN or
// infinite and the other is not, or where a zero has the wrong sign.
double Error(DType type, double got, long double want);

}  // namespace kiln::ulp

#endif  // KILN_BENCH_ULP_FUNCTIONS_H_
