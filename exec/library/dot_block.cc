// SPDX-License-Identifier: Apache-2.0
#include "exec/library/dot_block.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln::library {

#if defined(__x86_64__)
namespace {

constexpr int64_t kLanes = 16;  // correctness

[[gnu::target("avx512f"), gnu::always_inline]] inline float Fold(__m512 sum) {
  alignas(64) float lanes[kLanes];
  _mm512_store_ps(lanes, sum);
  const __m256 eight = _mm256_add_ps(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// kCount windows times kFilters filters from the `first` and `filter` on: as many sums as hide the
// latency of each and leave registers for what they share.
template <int kCount, int kFilters>
[[gnu::target("avx512f")]] void Block(const Dots& d, int64_t first, int64_t filter) {
  __m512 sums[kCount][kFilters], scale[kFilters];
  for (auto& of_window : sums) {
    for (__m512& sum : of_window) sum = _mm512_setzero_ps();
  }
  const auto rest = static_cast<__mmask16>((1U << (d.terms % kLanes)) - 1);
  for (int64_t s = 0; s < d.segments; ++s) {
    if (d.x[s] == nullptr) continue;
    const float* const x = d.x[s] + first * d.x_step;
    const float* const w = d.w + filter * d.w_filter + s * d.w_segment;
    int64_t t = 0;
    for (; t + kLanes <= d.terms; t += kLanes) {
#pragma GCC unroll 8
      for (int m = 0; m < kFilters; ++m) scale[m] = _mm512_loadu_ps(w + m * d.w_filter + t);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        __m512 window = _mm512_loadu_ps(x + r * d.x_step + t);
        __asm__("" : "+v"(window));  // loaded once, not once for each filter
#pragma GCC unroll 8
        for (int m = 0; m < kFilters; ++m)
          sums[r][m] = _mm512_fmadd_ps(window, scale[m], sums[r][m]);
      }
    }
    if (rest == 0) continue;
#pragma GCC unroll 8
    for (int m = 0; m < kFilters; ++m)
      scale[m] = _mm512_maskz_loadu_ps(rest, w + m * d.w_filter + t);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const __m512 window = _mm512_maskz_loadu_ps(rest, x + r * d.x_step + t);
#pragma GCC unroll 8
      for (int m = 0; m < kFilters; ++m)
        sums[r][m] = _mm512_mask3_fmadd_ps(window, scale[m], sums[r][m], rest);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int m = 0; m < kFilters; ++m) {
      const float start = d.bias == nullptr ? 0.0F : d.bias[filter + m];
      d.y[(first + r) * d.filters + filter + m] = start + Fold(sums[r][m]);
    }
  }
}

template <int kFilters>
void RunFilters(const Dots& d, int64_t filter) {
  constexpr int kWindows = 8;  // speed
  int64_t r = 0;
  for (; r + kWindows <= d.count; r += kWindows) Block<kWindows, kFilters>(d, r, filter);
  for (; r < d.count; ++r) Block<1, kFilters>(d, r, filter);
}

void Run(const Dots& d) {
  int64_t filter = 0;
  for (; filter + 3 <= d.filters; filter += 3) RunFilters<3>(d, filter);
  if (filter + 2 == d.filters) RunFilters<2>(d, filter);
  if (filter + 1 == d.filters) RunFilters<1>(d, filter);
}

}  // namespace

DotsFn FindDots() { return __builtin_cpu_supports("avx512f") != 0 ? Run : nullptr; }
#else
DotsFn FindDots() { return nullptr; }
#endif

}  // namespace kiln::library
