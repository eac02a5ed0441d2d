// SPDX-License-Identifier: Apache-2.0
#include "exec/library/pair_block.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <cstring>
#include <utility>
#include <vector>

namespace kiln::library {
namespace {

template <typename Byte>
[[gnu::always_inline]] inline void WidenLoop(const Byte* from, int64_t n, int zero, int16_t* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(from[i] - zero);
}

template <typename Byte>
[[gnu::always_inline]] inline void PackLoop(const PairOfColumns<Byte>& p) {
  if (p.even != nullptr && p.odd != nullptr && p.step == 1) {
    for (int64_t c = 0; c < p.n; ++c) {
      p.to[2 * c] = static_cast<int16_t>(p.even[c] - p.zeros[c]);
      p.to[2 * c + 1] = static_cast<int16_t>(p.odd[c] - p.zeros[c]);
    }
    return;
  }
  for (int64_t c = 0; c < p.n; ++c) {
    const auto centered = [&](const Byte* from) {
      return static_cast<int16_t>(from == nullptr ? 0 : from[c * p.step] - p.zeros[c]);
    };
    p.to[2 * c] = centered(p.even);
    p.to[2 * c + 1] = centered(p.odd);
  }
}

void WidenU8(const uint8_t* from, int64_t n, int zero, int16_t* to) {
  WidenLoop(from, n, zero, to);
}
void WidenI8(const int8_t* from, int64_t n, int zero, int16_t* to) { WidenLoop(from, n, zero, to); }
void PackU8(const PairOfColumns<uint8_t>& pair) { PackLoop(pair); }
void PackI8(const PairOfColumns<int8_t>& pair) { PackLoop(pair); }

constexpr int64_t kPlainColumns = 16;  // correctness

template <int kRows>
void RunPlain(const PairBlock& b) {
  uint32_t sums[kRows][kPlainColumns] = {};
  const int16_t* w = b.panel;
  for (int64_t s = 0; s < b.segments; ++s) {
    for (int64_t p = 0; p < b.pairs; ++p, w += 2 * kPlainColumns) {
      for (int r = 0; r < kRows; ++r) {
        const int16_t* const x = b.rows[r] + b.offsets[s] + 2 * p;
        for (int64_t c = 0; c < kPlainColumns; ++c)
          sums[r][c] += static_cast<uint32_t>(x[0] * w[2 * c] + x[1] * w[2 * c + 1]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) std::memcpy(b.sums[r], sums[r], sizeof sums[r]);
}

void DepthwisePlain(const DepthwisePairs& d) {
  for (int64_t i = 0; i < d.points; ++i) {
    const int16_t* const x = d.x + i * d.x_step;
    for (int64_t c = 0; c < d.channels; ++c) {
      const int16_t* w = d.w + 2 * (c / kDepthwisePairs * d.pairs * kDepthwisePairs +
                                    DepthwiseLane(c % kDepthwisePairs));
      uint32_t sum = 0;
      for (int64_t p = 0; p < d.pairs; ++p, w += 2 * kDepthwisePairs) {
        sum += static_cast<uint32_t>(x[d.offsets[2 * p] + c] * w[0] +
                                     x[d.offsets[2 * p + 1] + c] * w[1]);
      }
      d.y[i * d.y_step + c] = static_cast<int32_t>(sum);
    }
  }
}

#if defined(__x86_64__)
// A pair of terms in all lanes.
[[gnu::target("avx2"), gnu::always_inline]] inline int PairAt(const int16_t* x) {
  int pair;
  std::memcpy(&pair, x, sizeof pair);
  return pair;
}

// sum += pair * weights. The instruction that does all of it has no name here that both families of
// processors with it take.
template <bool kVnni>
[[gnu::target("avx2"), gnu::always_inline]] inline void Add(__m256i pair, __m256i w, __m256i& sum) {
  if constexpr (kVnni) {
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(pair), "x"(w));
  } else {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pair, w));
  }
}
template <bool kVnni>
[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline void Add(__m512i pair, __m512i w,
                                                                        __m512i& sum) {
  if constexpr (kVnni) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(pair), "v"(w));
  } else {
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pair, w));
  }
}

template <int kRows, bool kVnni>
[[gnu::target("avx2")]] void RunAvx2(const PairBlock& b) {
  __m256i low[kRows], high[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
  const int16_t* w = b.panel;
  for (int64_t s = 0; s < b.segments; ++s) {
    const int16_t* x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = b.rows[r] + b.offsets[s];
    for (int64_t p = 0; p < b.pairs; ++p, w += 32) {
      const __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
      const __m256i second = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 16));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m256i pair = _mm256_set1_epi32(PairAt(x[r] + 2 * p));
        Add<kVnni>(pair, first, low[r]);
        Add<kVnni>(pair, second, high[r]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(b.sums[r]), low[r]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(b.sums[r] + 8), high[r]);
  }
}

template <int kRows, bool kVnni>
[[gnu::target("avx512f,avx512bw")]] void RunAvx512(const PairBlock& b) {
  __m512i low[kRows], high[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm512_setzero_si512();
  const int16_t* w = b.panel;
  for (int64_t s = 0; s < b.segments; ++s) {
    const int16_t* x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = b.rows[r] + b.offsets[s];
    for (int64_t p = 0; p < b.pairs; ++p, w += 64) {
      const __m512i first = _mm512_load_si512(w), second = _mm512_load_si512(w + 32);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512i pair = _mm512_set1_epi32(PairAt(x[r] + 2 * p));
        Add<kVnni>(pair, first, low[r]);
        Add<kVnni>(pair, second, high[r]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_si512(b.sums[r], low[r]);
    _mm512_storeu_si512(b.sums[r] + 16, high[r]);
  }
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i Load(const int16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::target("avx2"), gnu::always_inline]] inline void Store(int32_t* to, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
}

// kPoints points from the `first` on, for the register of channels from c on.
template <int kPoints>
[[gnu::target("avx2")]] void DepthwiseBlock(const DepthwisePairs& d, int64_t first, int64_t c) {
  __m256i low[kPoints], high[kPoints];
#pragma GCC unroll 4
  for (int i = 0; i < kPoints; ++i) low[i] = high[i] = _mm256_setzero_si256();
  const int16_t *const x = d.x + first * d.x_step + c, *w = d.w + 2 * c * d.pairs;
  for (int64_t p = 0; p < d.pairs; ++p, w += 2 * kDepthwisePairs) {
    const int16_t *const even = x + d.offsets[2 * p], *const odd = x + d.offsets[2 * p + 1];
    const __m256i w_low = Load(w), w_high = Load(w + kDepthwisePairs);
#pragma GCC unroll 4
    for (int i = 0; i < kPoints; ++i) {
      const __m256i a = Load(even + i * d.x_step), b = Load(odd + i * d.x_step);
      Add<false>(_mm256_unpacklo_epi16(a, b), w_low, low[i]);
      Add<false>(_mm256_unpackhi_epi16(a, b), w_high, high[i]);
    }
  }
  const int64_t left = d.channels - c;
#pragma GCC unroll 4
  for (int i = 0; i < kPoints; ++i) {
    int32_t sums[kDepthwisePairs];
    int32_t *const y = d.y + (first + i) * d.y_step + c, *const to =
                                                             left < kDepthwisePairs ? sums : y;
    Store(to, _mm256_permute2x128_si256(low[i], high[i], 0x20));
    Store(to + 8, _mm256_permute2x128_si256(low[i], high[i], 0x31));
    if (left < kDepthwisePairs) std::memcpy(y, sums, static_cast<size_t>(left) * sizeof *y);
  }
}

void DepthwiseAvx2(const DepthwisePairs& d) {
  int64_t i = 0;
  for (; i + 4 <= d.points; i += 4) {
    for (int64_t c = 0; c < d.channels; c += kDepthwisePairs) DepthwiseBlock<4>(d, i, c);
  }
  for (; i < d.points; ++i) {
    for (int64_t c = 0; c < d.channels; c += kDepthwisePairs) DepthwiseBlock<1>(d, i, c);
  }
}

[[gnu::target("avx2")]] void WidenU8Avx2(const uint8_t* from, int64_t n, int zero, int16_t* to) {
  WidenLoop(from, n, zero, to);
}
[[gnu::target("avx2")]] void WidenI8Avx2(const int8_t* from, int64_t n, int zero, int16_t* to) {
  WidenLoop(from, n, zero, to);
}
[[gnu::target("avx2")]] void PackU8Avx2(const PairOfColumns<uint8_t>& pair) { PackLoop(pair); }
[[gnu::target("avx2")]] void PackI8Avx2(const PairOfColumns<int8_t>& pair) { PackLoop(pair); }

// Not every compiler knows its name.
bool HasAvxVnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1U << 4)) != 0;
}

template <bool kVnni, int... kRows>
constexpr PairLoops Avx2(const char* name, std::integer_sequence<int, kRows...>) {
  return {name,          16,          sizeof...(kRows), {RunAvx2<kRows + 1, kVnni>...},
          DepthwiseAvx2, WidenU8Avx2, WidenI8Avx2,      PackU8Avx2,
          PackI8Avx2};
}
template <bool kVnni, int... kRows>
constexpr PairLoops Avx512(const char* name, std::integer_sequence<int, kRows...>) {
  return {name,          32,          sizeof...(kRows), {RunAvx512<kRows + 1, kVnni>...},
          DepthwiseAvx2, WidenU8Avx2, WidenI8Avx2,      PackU8Avx2,
          PackI8Avx2};
}
#endif

constexpr PairLoops kPlain = {"plain",        kPlainColumns, 2,       {RunPlain<1>, RunPlain<2>},
                              DepthwisePlain, WidenU8,       WidenI8, PackU8,
                              PackI8};

std::vector<PairLoops> FindPairLoops() {
  std::vector<PairLoops> found;
#if defined(__x86_64__)
  // As many rows as leave registers for two of weights, a pair and a product.
  constexpr auto k6 = std::make_integer_sequence<int, 6>();
  constexpr auto k12 = std::make_integer_sequence<int, 12>();
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0) {
    if (__builtin_cpu_supports("avx512vnni") != 0)
      found.push_back(Avx512<true>("AVX512-VNNI", k12));
    found.push_back(Avx512<false>("AVX-512", k12));
  }
  if (__builtin_cpu_supports("avx2") != 0) {
    if (HasAvxVnni()) found.push_back(Avx2<true>("AVX-VNNI", k6));
    found.push_back(Avx2<false>("AVX2", k6));
  }
#endif
  found.push_back(kPlain);
  return found;
}

}  // namespace

std::span<const PairLoops> AllPairLoops() {
  static const std::vector<PairLoops> kAll = FindPairLoops();
  return kAll;
}

}  // namespace kiln::library
