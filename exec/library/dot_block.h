// SPDX-License-Identifier: Apache-2.0
// The inner loop of convolutions to few channels: dot products of filters with neighbouring
// windows.
#ifndef KILN_EXEC_LIBRARY_DOT_BLOCK_H_
#define KILN_EXEC_LIBRARY_DOT_BLOCK_H_

#include <cstdint>

namespace kiln::library {

// y[r * filters + m] = bias[m] + sum over s < segments and t < terms of
//     x[s][r * x_step + t] * w[m * w_filter + s * w_segment + t]      for r < count, m < filters.
// Segments whose x is null are left out. Sixteen partial sums of an element run over its terms in
// order, with fused multiply-adds: its bits do not depend on what is computed beside it.
struct Dots {
  const float* const* x;
  int64_t x_step;
  const float* w;
  int64_t w_filter, w_segment;
  int64_t segments, terms, count, filters;
  const float* bias;  // null: zeros
  float* y;
};

// Null where the processor has no AVX-512.
using DotsFn = void (*)(const Dots& dots);
DotsFn FindDots();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DOT_BLOCK_H_
