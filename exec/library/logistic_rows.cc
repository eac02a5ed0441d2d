// SPDX-License-Identifier: Apache-2.0
// Logistic functions over rows, in registers of sixteen.
#include "exec/library/post_op_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>

namespace kiln::library {

#if defined(__x86_64__)
namespace {

// 2^(i/32): two registers, which one instruction looks up.
alignas(64) constexpr float kRoots[32] = {
    0x1p+0F,        0x1.059b0ep+0F, 0x1.0b5586p+0F, 0x1.11301ep+0F, 0x1.172b84p+0F, 0x1.1d4874p+0F,
    0x1.2387a6p+0F, 0x1.29e9ep+0F,  0x1.306fep+0F,  0x1.371a74p+0F, 0x1.3dea64p+0F, 0x1.44e086p+0F,
    0x1.4bfdaep+0F, 0x1.5342b6p+0F, 0x1.5ab07ep+0F, 0x1.6247ecp+0F, 0x1.6a09e6p+0F, 0x1.71f75ep+0F,
    0x1.7a1148p+0F, 0x1.82589ap+0F, 0x1.8ace54p+0F, 0x1.93737cp+0F, 0x1.9c4918p+0F, 0x1.a5503cp+0F,
    0x1.ae89fap+0F, 0x1.b7f77p+0F,  0x1.c199bep+0F, 0x1.cb720ep+0F, 0x1.d5818ep+0F, 0x1.dfc974p+0F,
    0x1.ea4afap+0F, 0x1.f50766p+0F};

// 1 + exp(-a x).
struct OnePlusExp {
  __m512 low_root, high_root, scale, scale_rest, most;

  [[gnu::target("avx512f")]] explicit OnePlusExp(float a) {
    constexpr double kLog2E = 1.4426950408889634;  // correctness
    // Beyond this power of two a float is 0 or infinite.
    constexpr double kMost = 192;  // correctness
    const double factor = -static_cast<double>(a) * kLog2E;
    const auto rounded = static_cast<float>(factor);
    low_root = _mm512_load_ps(kRoots);
    high_root = _mm512_load_ps(kRoots + 16);
    scale = _mm512_set1_ps(rounded);
    scale_rest = _mm512_set1_ps(static_cast<float>(factor - rounded));
    most = _mm512_set1_ps(static_cast<float>(kMost / std::abs(factor)));
  }

  // 2^z for z = scale * x: 2^k in exponent and table, k the nearest multiple of 1/32, times what a
  // cubic makes of the rest. The second operand of a maximum or minimum is what comes of a NaN.
  [[gnu::target("avx512f"), gnu::always_inline]] __m512 Of(__m512 x) const {
    constexpr __mmask16 kAll = 0xffff;               // correctness
    const __m512 magic = _mm512_set1_ps(0x1.8p18F);  // whose last place is 1/32
    const __m512 least = _mm512_sub_ps(_mm512_setzero_ps(), most);
    const __m512 bound = _mm512_maskz_min_ps(kAll, most, _mm512_maskz_max_ps(kAll, least, x));
    const __m512 shifted = _mm512_fmadd_ps(bound, scale, magic);
    const __m512 k = _mm512_sub_ps(shifted, magic);
    __m512 rest = _mm512_fmsub_ps(bound, scale, k);
    rest = _mm512_fmadd_ps(bound, scale_rest, rest);
    const __m512 root = _mm512_permutex2var_ps(low_root, _mm512_castps_si512(shifted), high_root);
    __m512 more =
        _mm512_fmadd_ps(rest, _mm512_set1_ps(0x1.c6b08ep-5F), _mm512_set1_ps(0x1.ebfbep-3F));
    more = _mm512_fmadd_ps(rest, more, _mm512_set1_ps(0x1.62e43p-1F));
    more = _mm512_mul_ps(rest, more);
    const __m512 power = _mm512_maskz_scalef_ps(kAll, _mm512_fmadd_ps(root, more, root), k);
    return _mm512_add_ps(power, _mm512_set1_ps(1));
  }
};

template <bool kSwish>
[[gnu::target("avx512f")]] void Run(float* x, const float*, int64_t, int64_t n, const float* c) {
  constexpr int64_t kLanes = 16;  // correctness
  const OnePlusExp divisor(kSwish ? c[0] : 1.0F);
  for (int64_t i = 0; i < n; i += kLanes) {
    const auto mask = static_cast<__mmask16>(n - i >= kLanes ? 0xffffU : (1U << (n - i)) - 1);
    const __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
    const __m512 over = kSwish ? value : _mm512_set1_ps(1);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_div_ps(over, divisor.Of(value)));
  }
}

PostOpRow IfSupported(PostOpRow row) {
  return __builtin_cpu_supports("avx512f") != 0 ? row : nullptr;
}

}  // namespace

PostOpRow FindSigmoidRow() { return IfSupported(Run<false>); }
PostOpRow FindSwishRow() { return IfSupported(Run<true>); }
#else
PostOpRow FindSigmoidRow() { return nullptr; }
PostOpRow FindSwishRow() { return nullptr; }
#endif

}  // namespace kiln::library
