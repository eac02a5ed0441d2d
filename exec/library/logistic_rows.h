// SPDX-License-Identifier: Apache-2.0
// Logistic functions over rows, in registers of sixteen.
#ifndef KILN_EXEC_LIBRARY_LOGISTIC_ROWS_H_
#define KILN_EXEC_LIBRARY_LOGISTIC_ROWS_H_

#include "exec/library/post_op_rows.h"

namespace kiln::library {

// sigmoid(x) = 1 / (1 + exp(-x)) and swish(x) = x / (1 + exp(-c[0] x)), within 3 units of the last
// place, or 0 where the exponential is more than a float holds. An element's bits do not depend on
// its place. Null where the processor has no AVX-512.
PostOpRow FindSigmoidRow();
PostOpRow FindSwishRow();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_LOGISTIC_ROWS_H_
