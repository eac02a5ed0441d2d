// SPDX-License-Identifier: Apache-2.0
// The inner loops of pooling with channels innermost: one tap of a window for all channels, in the
// widest registers that the processor has.
#ifndef KILN_EXEC_LIBRARY_POOL_ROWS_H_
#define KILN_EXEC_LIBRARY_POOL_ROWS_H_

#include <cstdint>

namespace kiln::library {

struct PoolRows {
  // y[i] = the larger of y[i] and x[i]; NaN if either is.
  void (*max)(float* y, const float* x, int64_t n);
  // y[i] += x[i]
  void (*add)(float* y, const float* x, int64_t n);
  // Where x[i] is larger than best[i], or a NaN and best[i] is none: best[i] = x[i], at[i] = tap.
  void (*track)(float* best, int32_t* at, const float* x, int32_t tap, int64_t n);
};

// The loops for this processor; all give the same bits.
const PoolRows& GetPoolRows();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_POOL_ROWS_H_
