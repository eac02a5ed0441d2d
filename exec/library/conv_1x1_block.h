// SPDX-License-Identifier: Apache-2.0
// The inner loop of convolutions of one point: a block of rows that lie evenly apart times a panel
// of up to 32 columns, from the bias to the bounds in registers.
#ifndef KILN_EXEC_LIBRARY_CONV_1X1_BLOCK_H_
#define KILN_EXEC_LIBRARY_CONV_1X1_BLOCK_H_

#include <cstdint>

namespace kiln::library {

// Rows of a block: their sums fill the registers that panel and factor leave.
inline constexpr int64_t kPointRows = 14;  // correctness
// Panels are whole multiples of this: half a register, which costs half a register's time where
// registers are worked on in halves.
inline constexpr int64_t kPointColumns = 8;       // correctness
inline constexpr int64_t kMostPointColumns = 32;  // correctness

// y[r][c] = the bias of c + sum over t < terms of x[r][t] * panel[t][c], in the order of the terms,
// fused, then no less than `low` and no more than `high`; for c < columns.
struct Conv1X1Block {
  const float* x;
  int64_t x_step;  // from row to row
  int64_t terms;
  const float* panel;  // [terms][columns rounded up to kPointColumns]
  const float* bias;   // null: zeros
  float* y;
  int64_t y_step;
  int64_t columns;  // in [1, kMostPointColumns]
  float low, high;  // NaN passes between them
  bool far;         // y is in no near cache
};

// The loop for `rows` rows, in [1, kPointRows], and so many columns; null where the processor has
// no AVX-512.
using Conv1X1BlockFn = void (*)(const Conv1X1Block& block);
Conv1X1BlockFn FindConv1X1Block(int64_t rows, int64_t columns);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_CONV_1X1_BLOCK_H_
