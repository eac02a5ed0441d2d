// SPDX-License-Identifier: Apache-2.0
#include "exec/library/conv_1x1_block.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <utility>

namespace kiln::library {

#if defined(__x86_64__)
namespace {

constexpr __mmask16 kAll = 0xffff;  // correctness

// A panel of kFull registers and then, if kHalf, half of one.
template <int kRows, int kFull, bool kHalf>
[[gnu::target("avx512f,avx512vl,fma,prfchw")]] void Run(const Conv1X1Block& b) {
  constexpr int kWidth = 16 * kFull + (kHalf ? 8 : 0);  // correctness
  constexpr int kSome = kFull == 0 ? 1 : kFull;         // an array has an element
  const auto last = static_cast<__mmask16>((1U << (16 - (kWidth - b.columns))) - 1);
  const auto rest = static_cast<__mmask8>((1U << (8 - (kWidth - b.columns))) - 1);
  const auto mask = [&](int v) -> __mmask16 { return kHalf || v + 1 < kFull ? 0xffff : last; };
  __m512 sums[kRows][kSome];
  __m256 halves[kRows];
#pragma GCC unroll 2
  for (int v = 0; v < kFull; ++v) {
    const __m512 bias =
        b.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask(v), b.bias + 16 * v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r][v] = bias;
  }
  const __m256 half_bias = kHalf && b.bias != nullptr
                               ? _mm256_maskz_loadu_ps(rest, b.bias + 16 * kFull)
                               : _mm256_setzero_ps();
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) halves[r] = half_bias;
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = b.x + r * b.x_step;
  // What the block writes comes from afar while it is computed.
  for (int r = 0; b.far && r < kRows; ++r) {
    for (int c = 0; c < kWidth; c += 16) __builtin_prefetch(b.y + r * b.y_step + c, 1);
  }
  const float* panel = b.panel;
  for (int64_t t = 0; t < b.terms; ++t, panel += kWidth) {
    __m512 w[kSome];
#pragma GCC unroll 2
    for (int v = 0; v < kFull; ++v) w[v] = _mm512_loadu_ps(panel + 16 * v);
    const __m256 half = kHalf ? _mm256_loadu_ps(panel + 16 * kFull) : _mm256_setzero_ps();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 scale = _mm512_set1_ps(x[r][t]);
#pragma GCC unroll 2
      for (int v = 0; v < kFull; ++v) sums[r][v] = _mm512_fmadd_ps(scale, w[v], sums[r][v]);
      if (kHalf) halves[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r][t]), half, halves[r]);
    }
  }
  // The second operand of a maximum or minimum is what comes of a NaN.
  const __m512 low = _mm512_set1_ps(b.low), high = _mm512_set1_ps(b.high);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* const y = b.y + r * b.y_step;
#pragma GCC unroll 2
    for (int v = 0; v < kFull; ++v) {
      const __m512 bound =
          _mm512_maskz_min_ps(kAll, high, _mm512_maskz_max_ps(kAll, low, sums[r][v]));
      _mm512_mask_storeu_ps(y + 16 * v, mask(v), bound);
    }
    if (kHalf) {
      const __m256 bound =
          _mm256_min_ps(_mm256_set1_ps(b.high), _mm256_max_ps(_mm256_set1_ps(b.low), halves[r]));
      _mm256_mask_storeu_ps(y + 16 * kFull, rest, bound);
    }
  }
}

template <int kFull, bool kHalf, int... kRows>
constexpr auto MakeTable(std::integer_sequence<int, kRows...>) {
  return std::array<Conv1X1BlockFn, sizeof...(kRows)>{Run<kRows + 1, kFull, kHalf>...};
}

}  // namespace

Conv1X1BlockFn FindConv1X1Block(int64_t rows, int64_t columns) {
  static constexpr auto kRows = std::make_integer_sequence<int, kPointRows>();
  static constexpr std::array kTables = {MakeTable<0, true>(kRows), MakeTable<1, false>(kRows),
                                         MakeTable<1, true>(kRows), MakeTable<2, false>(kRows)};
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512vl") == 0)
    return nullptr;
  return kTables[static_cast<size_t>((columns - 1) / kPointColumns)][static_cast<size_t>(rows - 1)];
}
#else
Conv1X1BlockFn FindConv1X1Block(int64_t, int64_t) { return nullptr; }
#endif

}  // namespace kiln::library
