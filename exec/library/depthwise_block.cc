// SPDX-License-Identifier: Apache-2.0
#include "exec/library/depthwise_block.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace kiln::library {

#if defined(__x86_64__)
namespace {

constexpr __mmask16 kAll = 0xffff;  // correctness

// A point is loaded once for all outputs whose windows it lies in.
template <int kOutputs, int kKernel, int kStride>
[[gnu::target("avx512f,prfchw")]] void Run(const DepthwiseBlock& b) {
  constexpr int kPoints = (kOutputs - 1) * kStride + kKernel;
  const __m512 low = _mm512_set1_ps(b.low), high = _mm512_set1_ps(b.high);
  const int64_t padded = (b.channels + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  for (int64_t c = 0; c < b.channels; c += kDepthwiseLanes) {
    const int64_t left = b.channels - c;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffffU : (1U << left) - 1);
    __m512 sums[kOutputs];
    const __m512 bias =
        b.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, b.bias + c);
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) sums[o] = bias;
      // What is written comes from afar while it is computed.
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) __builtin_prefetch(b.y + o * b.channels + c, 1);
    for (int64_t s = 0; s < b.segments; ++s) {
      const float* const* const x = b.x + s * kPoints;
      const float* const from = b.w + s * kKernel * padded + c;
      __m512 w[kKernel];
#pragma GCC unroll 8
      for (int k = 0; k < kKernel; ++k) w[k] = _mm512_loadu_ps(from + k * padded);
#pragma GCC unroll 32
      for (int i = 0; i < kPoints; ++i) {
        const __m512 point = _mm512_maskz_loadu_ps(mask, x[i] + c);
#pragma GCC unroll 8
        for (int k = 0; k < kKernel; ++k) {
          const int o = (i - k) / kStride;
          if (i >= k && (i - k) % kStride == 0 && o < kOutputs)
            sums[o] = _mm512_fmadd_ps(point, w[k], sums[o]);
        }
      }
    }
    // The second operand of a maximum or minimum is what comes of a NaN.
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      const __m512 bound = _mm512_maskz_min_ps(kAll, high, _mm512_maskz_max_ps(kAll, low, sums[o]));
      _mm512_mask_storeu_ps(b.y + o * b.channels + c, mask, bound);
    }
  }
}

using Table = std::array<DepthwiseBlockFn, kMostDepthwise>;

template <int kKernel, int kStride, int... kOutputs>
constexpr Table MakeTable(std::integer_sequence<int, kOutputs...>) {
  return {Run<kOutputs + 1, kKernel, kStride>...};
}

template <int kKernel, int kStride>
constexpr Table Of() {
  return MakeTable<kKernel, kStride>(std::make_integer_sequence<int, kMostDepthwise>());
}

struct Window {
  int64_t kernel, stride;
  Table blocks;
};
// Widths of a window and its steps.
constexpr Window kWindows[] = {  // correctness
    {3, 1, Of<3, 1>()}, {3, 2, Of<3, 2>()}, {5, 1, Of<5, 1>()},
    {5, 2, Of<5, 2>()}, {7, 1, Of<7, 1>()}, {7, 2, Of<7, 2>()}};

}  // namespace

DepthwiseBlockFn FindDepthwiseBlock(int64_t outputs, int64_t kernel, int64_t stride) {
  if (__builtin_cpu_supports("avx512f") == 0) return nullptr;
  const Window* const found = std::find_if(
      std::begin(kWindows), std::end(kWindows),
      [&](const Window& window) { return window.kernel == kernel && window.stride == stride; });
  return found == std::end(kWindows) ? nullptr : found->blocks[static_cast<size_t>(outputs - 1)];
}
#else
DepthwiseBlockFn FindDepthwiseBlock(int64_t, int64_t, int64_t) { return nullptr; }
#endif

}  // namespace kiln::library
