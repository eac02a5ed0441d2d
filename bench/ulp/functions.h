// SPDX-License-Identifier: Apache-2.0
// The functions of kernels as the sweep knows them: operator, reference, bound.
#ifndef KILN_BENCH_ULP_FUNCTIONS_H_
#define KILN_BENCH_ULP_FUNCTIONS_H_

#include <span>

#include "base/dtype.h"
#include "kernel/scalar_expr.h"

namespace kiln::ulp {

struct Function {
  ScalarOp op;
  bool has_operator;  // a graph operator of the same name; else only kernels know it
  // The C library's, of one operand; or of two, and then these are null.
  double (*quick)(double);
  long double (*exact)(long double);
  double bound32, bound64;  // in units of the last place
  double (*quick_of_two)(double, double) = nullptr;
  long double (*exact_of_two)(long double, long double) = nullptr;

  int operands() const { return quick != nullptr ? 1 : 2; }
  double Bound(DType type) const;
};

std::span<const Function> Functions();

// True only if `got` is within half a unit of `want`: says so without Error's pains.
bool IsNearest(DType type, double got, double want);

// |got - want| in units of the last place of `want` in `type`; infinite where one is NaN or
// infinite and the other is not, or where a zero has the wrong sign.
double Error(DType type, double got, long double want);

}  // namespace kiln::ulp

#endif  // KILN_BENCH_ULP_FUNCTIONS_H_
