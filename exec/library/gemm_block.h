// SPDX-License-Identifier: Apache-2.0
// The inner loop of products by panels: a block of rows times a panel of 32 columns, while the
// next piece of the matrix is asked for.
#ifndef KILN_EXEC_LIBRARY_GEMM_BLOCK_H_
#define KILN_EXEC_LIBRARY_GEMM_BLOCK_H_

#include <cstdint>

namespace kiln::library {

inline constexpr int64_t kPanel = 32;  // correctness: columns of a panel: two registers
// Rows of a block: their sums fill the registers that panel and factor leave.
inline constexpr int64_t kBlockRows = 14;  // correctness

// A piece of memory to ask for, part by part, one cache line at a time. The lines lie in `streams`
// streams side by side: the processor follows each of them by itself then, further than a program
// can ask.
struct Ahead {
  static constexpr int64_t kStreams = 8;  // speed
  const char* from = nullptr;             // null: nothing
  int64_t stream_bytes = 0;
  int64_t line = 0;   // the first of this part
  int64_t lines = 0;  // of this part
};

// sums[r][0, 32) += sum over t < terms of rows[r][t] * panel[t][0, 32), each sum in the order of
// its terms, fused multiply-adds.
struct RowsTimesPanel {
  const float* const* rows;
  int64_t terms;
  const float* panel;
  float* const* sums;
  Ahead ahead;
};

// The loop for `rows` rows, in [1, kBlockRows]; null where the processor has no AVX-512.
using RowsTimesPanelFn = void (*)(const RowsTimesPanel& block);
RowsTimesPanelFn FindRowsTimesPanel(int64_t rows);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_GEMM_BLOCK_H_
