// SPDX-License-Identifier: Apache-2.0
// Moving elements, whatever their type. Included once per instruction set by ops.cc.
#if defined(KILN_EXEC_VM_MOVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KILN_EXEC_VM_MOVES_INL_H_
#undef KILN_EXEC_VM_MOVES_INL_H_
#else
#define KILN_EXEC_VM_MOVES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "exec/vm/ops.h"
#include "exec/vm/pattern.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls f with an unsigned integer of `size` bytes.
template <typename F>
HWY_INLINE void WithSize(size_t size, F f) {
  switch (size) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

inline void Fill(size_t size, void* dst, const void* element, size_t n) {
  WithSize(size, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, element, sizeof(T));
    auto* to = static_cast<T*>(dst);
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) to[i] = value;
  });
}

#if HWY_NATIVE_FMA
// The first of every kStride elements by loads of whole vectors, as far as these end inside
// src[0, (n - 1) * kStride]. Returns how many it did.
template <int kStride, typename T>
size_t Deinterleave(T* dst, const T* src, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t step = hn::Lanes(d);
  hn::Vec<decltype(d)> first, rest;
  size_t i = 0;
  for (; i + step < n; i += step) {
    const T* from = src + i * kStride;
    if constexpr (kStride == 2) {
      hn::LoadInterleaved2(d, from, first, rest);
    } else if constexpr (kStride == 3) {
      hn::LoadInterleaved3(d, from, first, rest, rest);
    } else {
      hn::LoadInterleaved4(d, from, first, rest, rest, rest);
    }
    hn::StoreU(first, d, dst + i);
  }
  return i;
}
#endif

// dst[i] = src[i * stride]
inline void GatherStrided(size_t size, void* dst, const void* src, int64_t stride, size_t n) {
  if (stride == 1) {
    std::memcpy(dst, src, n * size);
    return;
  }
  if (stride == 0) {
    Fill(size, dst, src, n);
    return;
  }
  WithSize(size, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = static_cast<const T*>(src);
    auto* to = static_cast<T*>(dst);
    size_t i = 0;
#if HWY_NATIVE_FMA
    if (stride == 2) i = Deinterleave<2>(to, from, n);
    if (stride == 3) i = Deinterleave<3>(to, from, n);
    if (stride == 4) i = Deinterleave<4>(to, from, n);
#endif
    for (; i < n; ++i) to[i] = from[static_cast<int64_t>(i) * stride];
  });
}

// dst[i * stride] = src[i]
inline void ScatterStrided(size_t size, void* dst, int64_t stride, const void* src, size_t n) {
  if (stride == 1) {
    std::memcpy(dst, src, n * size);
    return;
  }
  WithSize(size, [&](auto zero) {
    using T = decltype(zero);
    auto* to = static_cast<T*>(dst);
    for (size_t i = 0; i < n; ++i)
      to[static_cast<int64_t>(i) * stride] = static_cast<const T*>(src)[i];
  });
}

inline void StoreLines(void* dst, const void* src, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  for (size_t i = 0; i < bytes; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, static_cast<const uint8_t*>(src) + i);
    hn::Stream(v, d, static_cast<uint8_t*>(dst) + i);
  }
}

// ---- Patterns.

template <typename T>
void GatherOffsets(T* to, const T* from, const int32_t* offsets, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = offsets[i] == kOutside ? T{0} : from[offsets[i]];
}

#if HWY_NATIVE_FMA
inline constexpr size_t kWindow = HWY_MAX_BYTES / sizeof(float);
using WindowTag = hn::ScalableTag<float>;
using WindowVec = hn::Vec<WindowTag>;

// Elements picks[k] of the vectors `low` and `high` behind each other; 0 where that is negative.
HWY_INLINE WindowVec Pick(WindowVec low, WindowVec high, const int8_t* picks) {
#if HWY_TARGET <= HWY_AVX3
  const __m512i at = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(picks)));
  const __mmask16 inside = _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512());
  return WindowVec{_mm512_maskz_permutex2var_ps(inside, low.raw, at, high.raw)};
#else
  const __m256i at = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(picks)));
  const __m256 from_low = _mm256_permutevar8x32_ps(low.raw, at),
               from_high = _mm256_permutevar8x32_ps(high.raw, at);
  const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28));  // of index 8 ... 15
  const __m256 chosen = _mm256_blendv_ps(from_low, from_high, upper);
  return WindowVec{_mm256_andnot_ps(_mm256_castsi256_ps(_mm256_srai_epi32(at, 31)), chosen)};
#endif
}

inline void GatherWindows(float* own, const float* base, const Pattern& pattern, size_t n) {
  const WindowTag d;
  const Window* w = pattern.windows;
  for (size_t i = 0; i < n; i += kWindow, ++w) {
    const auto count = static_cast<size_t>(w->count);
    if (w->count == kNothing) {
      hn::StoreU(hn::Zero(d), d, own + i);  // blocks have room for whole vectors
      continue;
    }
    if (count == 0 || i + kWindow > n) {
      GatherOffsets(own + i, base, pattern.offsets + i, std::min(kWindow, n - i));
      continue;
    }
    const float* from = base + w->start;
    const WindowVec low = hn::MaskedLoad(hn::FirstN(d, std::min(count, kWindow)), d, from);
    WindowVec high = low;
    if (count > kWindow) high = hn::MaskedLoad(hn::FirstN(d, count - kWindow), d, from + kWindow);
    hn::StoreU(Pick(low, high, pattern.picks + i), d, own + i);
  }
}

// The transpose of eight vectors of eight.
using Eight = hn::FixedTag<float, 8>;
HWY_INLINE void Transpose(hn::Vec<Eight> (&v)[8]) {
  const Eight d;
  const hn::FixedTag<double, 4> pairs;
  hn::Vec<Eight> t[8];
  for (size_t k = 0; k < 8; k += 2) {
    t[k] = hn::InterleaveLower(d, v[k], v[k + 1]);
    t[k + 1] = hn::InterleaveUpper(d, v[k], v[k + 1]);
  }
  for (size_t k = 0; k < 8; k += 4) {
    for (size_t half = 0; half < 2; ++half) {
      const auto low = hn::BitCast(pairs, t[k + half]), high = hn::BitCast(pairs, t[k + 2 + half]);
      v[k + 2 * half] = hn::BitCast(d, hn::InterleaveLower(pairs, low, high));
      v[k + 2 * half + 1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low, high));
    }
  }
  for (size_t k = 0; k < 4; ++k) {
    const auto low = v[k], high = v[k + 4];
    v[k] = hn::ConcatLowerLower(d, high, low);
    v[k + 4] = hn::ConcatUpperUpper(d, high, low);
  }
}

// own[r * columns + c] = from[c * step + r], by tiles of eight rows and columns. The processor does
// not foresee the lines of the blocks that follow, which lie `step` apart.
inline void GatherTransposed(float* own, const float* from, int64_t step, size_t columns,
                             size_t n) {
  const Eight d;
  const size_t rows = (n + columns - 1) / columns;
  for (size_t r = 0; r < rows; r += 8) {
    const size_t height = std::min<size_t>(8, rows - r);
    const auto tall = hn::FirstN(d, height);
    for (size_t c = 0; c < columns; c += 8) {
      const size_t width = std::min<size_t>(8, columns - c);
      const auto wide = hn::FirstN(d, width);
      hn::Vec<Eight> v[8];
      for (size_t k = 0; k < 8; ++k) {
        const float* const at = from + static_cast<int64_t>(c + std::min(k, width - 1)) * step + r;
        v[k] = hn::MaskedLoad(tall, d, at);
        __builtin_prefetch(at + 2 * rows);
      }
      Transpose(v);
      for (size_t k = 0; k < height; ++k)
        hn::BlendedStore(v[k], wide, d, own + (r + k) * columns + c);
    }
  }
}
#else
inline constexpr size_t kWindow = 0;
#endif

// The first n elements of a pattern, of `size` bytes, from `base` to `own`.
inline void GatherPattern(size_t size, void* own, const uint8_t* base, const Pattern& pattern,
                          size_t n) {
  const auto bytes = static_cast<int64_t>(size);
  if (pattern.offsets != nullptr) {
#if HWY_NATIVE_FMA
    if (pattern.windows != nullptr)
      return GatherWindows(static_cast<float*>(own), reinterpret_cast<const float*>(base), pattern,
                           n);
#endif
    WithSize(size, [&](auto zero) {
      using T = decltype(zero);
      GatherOffsets(static_cast<T*>(own), reinterpret_cast<const T*>(base), pattern.offsets, n);
    });
    return;
  }
#if HWY_NATIVE_FMA
  if (pattern.columns > 0)
    return GatherTransposed(static_cast<float*>(own), reinterpret_cast<const float*>(base),
                            pattern.step, static_cast<size_t>(pattern.columns), n);
#endif
  if (pattern.spans == nullptr)
    return GatherStrided(size, own, base + pattern.start * bytes, pattern.step, n);
  auto* out = static_cast<uint8_t*>(own);
  for (size_t s = 0; s < pattern.num_spans; ++s) {
    const Span& span = pattern.spans[s];
    const auto begin = static_cast<size_t>(span.begin);
    if (begin >= n) break;
    const size_t count = std::min(n, static_cast<size_t>(span.end)) - begin;
    if (span.outside) {
      std::memset(out + begin * size, 0, count * size);
    } else {
      GatherStrided(size, out + begin * size, base + span.offset * bytes, span.step, count);
    }
  }
}

// And back. Patterns of results have no windows.
inline void ScatterPattern(size_t size, uint8_t* base, const Pattern& pattern, const void* own,
                           size_t n) {
  const auto bytes = static_cast<int64_t>(size);
  if (pattern.offsets != nullptr) {
    WithSize(size, [&](auto zero) {
      using T = decltype(zero);
      auto* to = reinterpret_cast<T*>(base);
      for (size_t i = 0; i < n; ++i) to[pattern.offsets[i]] = static_cast<const T*>(own)[i];
    });
    return;
  }
  if (pattern.spans == nullptr)
    return ScatterStrided(size, base + pattern.start * bytes, pattern.step, own, n);
  const auto* from = static_cast<const uint8_t*>(own);
  for (size_t s = 0; s < pattern.num_spans; ++s) {
    const Span& span = pattern.spans[s];
    const auto begin = static_cast<size_t>(span.begin);
    if (begin >= n) break;
    const size_t count = std::min(n, static_cast<size_t>(span.end)) - begin;
    ScatterStrided(size, base + span.offset * bytes, span.step, from + begin * size, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
