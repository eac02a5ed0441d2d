// SPDX-License-Identifier: Apache-2.0
#include "exec/library/lookup_rows.h"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln::library {
namespace {

void Plain(const uint8_t* x, const uint8_t* table, uint8_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

#if defined(__x86_64__)
// Two permutations, each of half the table, by the low 7 bits; the eighth chooses between them.
[[gnu::target("avx512f,avx512bw,avx512vbmi")]] void Vbmi(const uint8_t* x, const uint8_t* table,
                                                         uint8_t* y, int64_t n) {
  __m512i quarter[4];
  for (int q = 0; q < 4; ++q) quarter[q] = _mm512_loadu_si512(table + 64 * q);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 valid = n - i < 64 ? (uint64_t{1} << (n - i)) - 1 : ~uint64_t{0};
    const __m512i byte = _mm512_maskz_loadu_epi8(valid, x + i);
    const __m512i low = _mm512_permutex2var_epi8(quarter[0], byte, quarter[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarter[2], byte, quarter[3]);
    const __m512i value = _mm512_mask_blend_epi8(_mm512_movepi8_mask(byte), low, high);
    _mm512_mask_storeu_epi8(y + i, valid, value);
  }
}

// A permutation by the low 4 bits for each of 16 parts of the table; the others choose, bit by bit.
[[gnu::target("avx2")]] void Avx2(const uint8_t* x, const uint8_t* table, uint8_t* y, int64_t n) {
  __m256i part[16];
  for (int p = 0; p < 16; ++p) {
    part[p] = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + ptrdiff_t{16} * p)));
  }
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i byte = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    const __m256i low = _mm256_and_si256(byte, _mm256_set1_epi8(15));
    __m256i found[16];
    for (int p = 0; p < 16; ++p) found[p] = _mm256_shuffle_epi8(part[p], low);
    // A blend goes by the top bit of each byte: bit 4 gets there by a shift of 3, and so on.
    __m256i chooser = _mm256_slli_epi16(byte, 3);
    for (int count = 8; count > 0; count /= 2) {
      for (int p = 0; p < count; ++p)
        found[p] = _mm256_blendv_epi8(found[2 * p], found[2 * p + 1], chooser);
      chooser = _mm256_slli_epi16(byte, count == 8 ? 2 : count == 4 ? 1 : 0);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), found[0]);
  }
  Plain(x + i, table, y + i, n - i);
}
#endif

}  // namespace

std::span<const LookupRow> LookupRows() {
#if defined(__x86_64__)
  static constexpr std::array<LookupRow, 3> kAll = {Vbmi, Avx2, Plain};
  if (__builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512bw") != 0)
    return kAll;
  if (__builtin_cpu_supports("avx2") != 0) return std::span(kAll).last(2);
  return std::span(kAll).last(1);
#else
  static constexpr std::array<LookupRow, 1> kPlain = {Plain};
  return kPlain;
#endif
}

}  // namespace kiln::library
