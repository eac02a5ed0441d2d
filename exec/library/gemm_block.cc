// SPDX-License-Identifier: Apache-2.0
#include "exec/library/gemm_block.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <utility>

namespace kiln::library {

#if defined(__x86_64__)
namespace {

template <int kRows>
struct Sums {
  __m512 low[kRows], high[kRows];
};

template <int kRows>
[[gnu::target("avx512f"), gnu::always_inline]] inline void AddTerms(const float* const* rows,
                                                                    const float* panel,
                                                                    int64_t begin, int64_t end,
                                                                    Sums<kRows>& sums) {
#pragma GCC unroll 1
  for (int64_t t = begin; t < end; ++t) {
    const __m512 low = _mm512_loadu_ps(panel + t * kPanel);
    const __m512 high = _mm512_loadu_ps(panel + t * kPanel + 16);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = _mm512_set1_ps(rows[r][t]);
      sums.low[r] = _mm512_fmadd_ps(x, low, sums.low[r]);
      sums.high[r] = _mm512_fmadd_ps(x, high, sums.high[r]);
    }
  }
}

template <int kRows>
[[gnu::target("avx512f")]] void Run(const RowsTimesPanel& b) {
  const float* rows[kRows];
  std::copy(b.rows, b.rows + kRows, rows);
  Sums<kRows> sums;
  for (int r = 0; r < kRows; ++r) {
    sums.low[r] = _mm512_loadu_ps(b.sums[r]);
    sums.high[r] = _mm512_loadu_ps(b.sums[r] + 16);
  }
  // A line or a few after every few terms: all at once would wait for each other, and after each
  // term the sums would.
  constexpr int64_t kStep = 4;  // speed
  const int64_t burst = (b.ahead.lines * kStep + b.terms - 1) / b.terms;
  int64_t t = 0;
  for (int64_t i = b.ahead.line, last = i + b.ahead.lines; i < last;) {
    for (const int64_t end = std::min(i + burst, last); i < end; ++i) {
      _mm_prefetch(
          b.ahead.from + i % Ahead::kStreams * b.ahead.stream_bytes + i / Ahead::kStreams * 64,
          _MM_HINT_T1);
    }
    const int64_t begin = t;
    t = std::min(t + kStep, b.terms);
    AddTerms<kRows>(rows, b.panel, begin, t, sums);
  }
  AddTerms<kRows>(rows, b.panel, t, b.terms, sums);
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_ps(b.sums[r], sums.low[r]);
    _mm512_storeu_ps(b.sums[r] + 16, sums.high[r]);
  }
}

template <int... kRows>
constexpr auto MakeTable(std::integer_sequence<int, kRows...>) {
  return std::array<RowsTimesPanelFn, sizeof...(kRows)>{Run<kRows + 1>...};
}

}  // namespace

RowsTimesPanelFn FindRowsTimesPanel(int64_t rows) {
  static constexpr auto kTable = MakeTable(std::make_integer_sequence<int, kBlockRows>());
  return __builtin_cpu_supports("avx512f") != 0 ? kTable[static_cast<size_t>(rows - 1)] : nullptr;
}
#else
RowsTimesPanelFn FindRowsTimesPanel(int64_t) { return nullptr; }
#endif

}  // namespace kiln::library
