// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "exec/library/requantize.h"

namespace kiln::library {

uint8_t RequantizeExactly(const RequantizeChannels& c, int64_t channel, int32_t sum) {
  const double biased = static_cast<double>(sum) + static_cast<double>(c.bias[channel]);
  const double scaled = biased * c.x_scale[channel] * c.w_scale[channel] / c.y_scale[channel];
  const double whole = std::nearbyint(scaled) + c.zero[channel];
  if (std::isnan(whole)) return 0;
  const double low = c.is_signed ? -128 : 0, high = c.is_signed ? 127 : 255;
  return static_cast<uint8_t>(static_cast<int>(std::clamp(whole, low, high)));
}

namespace {

void Plain(const RequantizeChannels& channels, int64_t first, int64_t count, const int32_t* sums,
           uint8_t* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = RequantizeExactly(channels, first + i, sums[i]);
}

#if defined(__x86_64__)
// Whole numbers of four channels, as RequantizeExactly has them, within 32 bits.
[[gnu::target("avx2")]] __m128i InF64(const RequantizeChannels& c, int64_t channel, __m128i sums) {
  const auto load = [](const int32_t* from) __attribute__((target("avx2"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  __m256d v = _mm256_add_pd(_mm256_cvtepi32_pd(sums), _mm256_cvtepi32_pd(load(c.bias + channel)));
  v = _mm256_mul_pd(v, _mm256_loadu_pd(c.x_scale + channel));
  v = _mm256_mul_pd(v, _mm256_loadu_pd(c.w_scale + channel));
  v = _mm256_div_pd(v, _mm256_loadu_pd(c.y_scale + channel));
  v = _mm256_round_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  v = _mm256_add_pd(v, _mm256_cvtepi32_pd(load(c.zero + channel)));
  v = _mm256_and_pd(v, _mm256_cmp_pd(v, v, _CMP_ORD_Q));
  v = _mm256_max_pd(_mm256_min_pd(v, _mm256_set1_pd(1024)), _mm256_set1_pd(-1024));
  return _mm256_cvttpd_epi32(v);
}

// Whole numbers of eight channels, before they are clipped to bytes.
[[gnu::target("avx2")]] inline __m256i Whole(const RequantizeChannels& c, int64_t channel,
                                             const int32_t* sums) {
  const __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  const __m256i bias = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c.bias + channel));
  const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sum, bias)),
                                      _mm256_loadu_ps(c.factor + channel));
  const __m256 whole = _mm256_round_ps(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 off = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), _mm256_sub_ps(scaled, whole));
  const __m256 sure = _mm256_cmp_ps(off, _mm256_set1_ps(0.5F - 0x1p-12F), _CMP_LT_OQ);
  if (__builtin_expect(_mm256_movemask_ps(sure) == 0xff, 1)) {
    const __m256 bound =
        _mm256_max_ps(_mm256_min_ps(whole, _mm256_set1_ps(1024)), _mm256_set1_ps(-1024));
    const __m256i zero = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c.zero + channel));
    return _mm256_add_epi32(_mm256_cvtps_epi32(bound), zero);
  }
  return _mm256_set_m128i(InF64(c, channel + 4, _mm256_extracti128_si256(sum, 1)),
                          InF64(c, channel, _mm256_castsi256_si128(sum)));
}

[[gnu::target("avx2")]] void Avx2(const RequantizeChannels& channels, int64_t first, int64_t count,
                                  const int32_t* sums, uint8_t* y) {
  constexpr int64_t kBytes = 16;  // correctness: of a register
  for (int64_t i = 0; i < count; i += kBytes) {
    const __m256i low = Whole(channels, first + i, sums + i),
                  high = Whole(channels, first + i + 8, sums + i + 8);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    const __m128i lower = _mm256_castsi256_si128(words), upper = _mm256_extracti128_si256(words, 1);
    const __m128i bytes =
        channels.is_signed ? _mm_packs_epi16(lower, upper) : _mm_packus_epi16(lower, upper);
    if (i + kBytes <= count) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), bytes);
    } else {
      uint8_t last[kBytes];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(last), bytes);
      std::memcpy(y + i, last, static_cast<size_t>(count - i));
    }
  }
}
#endif

constexpr int64_t kSide = 16;  // correctness

// to[c * to_step + r] = from[r * kMore + c] for r and c below kSide.
void TransposeSquare(const uint8_t* from, uint8_t* to, int64_t to_step) {
#if defined(__x86_64__)
  __m128i rows[kSide], mixed[kSide];
  for (int r = 0; r < kSide; ++r) {
    rows[r] =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + r * RequantizeChannels::kMore));
  }
  for (int stage = 0; stage < 4; ++stage) {  // each doubles how far neighbours in a column are
    for (int r = 0; r < kSide / 2; ++r) {
      mixed[2 * r] = _mm_unpacklo_epi8(rows[r], rows[r + kSide / 2]);
      mixed[2 * r + 1] = _mm_unpackhi_epi8(rows[r], rows[r + kSide / 2]);
    }
    std::swap(rows, mixed);
  }
  for (int c = 0; c < kSide; ++c)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + c * to_step), rows[c]);
#else
  for (int64_t c = 0; c < kSide; ++c) {
    for (int64_t r = 0; r < kSide; ++r)
      to[c * to_step + r] = from[r * RequantizeChannels::kMore + c];
  }
#endif
}

// Whether kSide places lie side by side.
bool AreNeighbours(const int64_t* places) {
  bool are = true;
  for (int64_t i = 1; i < kSide; ++i) are &= places[i] == places[0] + i;
  return are;
}

}  // namespace

void StoreByChannel(const uint8_t* bytes, int64_t count, int64_t columns, const int64_t* places,
                    int64_t step, uint8_t* y) {
  for (int64_t r = 0; r < count; r += kSide) {
    const bool square = r + kSide <= count && AreNeighbours(places + r);
    const uint8_t* const from = bytes + r * RequantizeChannels::kMore;
    int64_t c = 0;
    for (; square && c + kSide <= columns; c += kSide)
      TransposeSquare(from + c, y + places[r] + c * step, step);
    for (; c < columns; ++c) {
      for (int64_t i = r; i < std::min(count, r + kSide); ++i)
        y[places[i] + c * step] = bytes[i * RequantizeChannels::kMore + c];
    }
  }
}

std::span<const RequantizeFn> AllRequantize() {
#if defined(__x86_64__)
  static constexpr std::array<RequantizeFn, 2> kAll = {Avx2, Plain};
  return __builtin_cpu_supports("avx2") != 0 ? std::span(kAll) : std::span(kAll).last(1);
#else
  static constexpr std::array<RequantizeFn, 1> kPlain = {Plain};
  return kPlain;
#endif
}

}  // namespace kiln::library
