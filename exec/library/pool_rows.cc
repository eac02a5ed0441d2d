// SPDX-License-Identifier: Apache-2.0
#include "exec/library/pool_rows.h"

namespace kiln::library {
namespace {

[[gnu::always_inline]] inline void MaxLoop(float* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = y[i], b = x[i];
    const float larger = a > b ? a : b;  // b if either is NaN
    y[i] = a != a ? a : larger;
  }
}

[[gnu::always_inline]] inline void AddLoop(float* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

[[gnu::always_inline]] inline void TrackLoop(float* best, int32_t* at, const float* x, int32_t tap,
                                             int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = best[i], b = x[i];
    const bool wins = (b > a) | ((b != b) & (a == a));
    best[i] = wins ? b : a;
    at[i] = wins ? tap : at[i];
  }
}

void Max(float* y, const float* x, int64_t n) { MaxLoop(y, x, n); }
void Add(float* y, const float* x, int64_t n) { AddLoop(y, x, n); }
void Track(float* best, int32_t* at, const float* x, int32_t tap, int64_t n) {
  TrackLoop(best, at, x, tap, n);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void TrackAvx2(float* best, int32_t* at, const float* x, int32_t tap,
                                       int64_t n) {
  TrackLoop(best, at, x, tap, n);
}
[[gnu::target("avx512f")]] void TrackAvx512(float* best, int32_t* at, const float* x, int32_t tap,
                                            int64_t n) {
  TrackLoop(best, at, x, tap, n);
}
[[gnu::target("avx2")]] void MaxAvx2(float* y, const float* x, int64_t n) { MaxLoop(y, x, n); }
[[gnu::target("avx2")]] void AddAvx2(float* y, const float* x, int64_t n) { AddLoop(y, x, n); }
[[gnu::target("avx512f")]] void MaxAvx512(float* y, const float* x, int64_t n) { MaxLoop(y, x, n); }
[[gnu::target("avx512f")]] void AddAvx512(float* y, const float* x, int64_t n) { AddLoop(y, x, n); }
#endif

}  // namespace

const PoolRows& GetPoolRows() {
  static constexpr PoolRows kPlain = {Max, Add, Track};
#if defined(__x86_64__)
  static constexpr PoolRows kAvx2 = {MaxAvx2, AddAvx2, TrackAvx2},
                            kAvx512 = {MaxAvx512, AddAvx512, TrackAvx512};
  if (__builtin_cpu_supports("avx512f") != 0) return kAvx512;
  if (__builtin_cpu_supports("avx2") != 0) return kAvx2;
#endif
  return kPlain;
}

}  // namespace kiln::library
