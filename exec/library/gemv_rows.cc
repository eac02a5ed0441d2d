// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/library/gemv_rows.h"

#include <algorithm>
#include <cstring>

namespace kiln::library {
namespace {

// 16 lanes whatever the registers are: the order of sums is the same on every processor.
constexpr int64_t kLanes = 16;
using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;

[[gnu::always_inline]] inline Lanes Load(const float* from) {
  Lanes v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void Store(float* to, Lanes v) { std::memcpy(to, &v, sizeof v); }

// Sums that stay in the first-level cache while the rows pass.
constexpr int64_t kBlock = 4096;
// Rows read side by side: as many streams as a prefetcher follows.
constexpr int64_t kRows = 8;

template <int64_t kCount>
[[gnu::always_inline]] inline void AddRows(const float* const* rows, const float* scale, float* y,
                                           int64_t n) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Lanes sum = Load(y + j);
    for (int64_t r = 0; r < kCount; ++r) sum += Load(rows[r] + j) * scale[r];
    Store(y + j, sum);
  }
  for (; j < n; ++j) {
    float sum = y[j];
    for (int64_t r = 0; r < kCount; ++r) sum += rows[r][j] * scale[r];
    y[j] = sum;
  }
}

[[gnu::always_inline]] inline void AcrossLoop(const GemvPart& p) {
  for (int64_t begin = 0; begin < p.sums; begin += kBlock) {
    const int64_t n = std::min(kBlock, p.sums - begin);
    float* y = p.y + begin;
    std::fill(y, y + n, 0.0F);
    int64_t t = 0;
    for (; t + kRows <= p.terms; t += kRows) {
      const float* rows[kRows];
      for (int64_t r = 0; r < kRows; ++r) rows[r] = p.matrix + (t + r) * p.stride + begin;
      AddRows<kRows>(rows, p.vector + t, y, n);
    }
    for (; t < p.terms; ++t) {
      const float* row = p.matrix + t * p.stride + begin;
      AddRows<1>(&row, p.vector + t, y, n);
    }
  }
}

[[gnu::always_inline]] inline float Fold(Lanes sum) {
  float lanes[kLanes];
  Store(lanes, sum);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// kCount sums at once, each in two accumulators.
template <int64_t kCount>
[[gnu::always_inline]] inline void Dot(const GemvPart& p, int64_t j) {
  const float* row = p.matrix + j * p.stride;
  Lanes even[kCount] = {}, odd[kCount] = {};
  int64_t t = 0;
  for (; t + 2 * kLanes <= p.terms; t += 2 * kLanes) {
    const Lanes a = Load(p.vector + t), b = Load(p.vector + t + kLanes);
    for (int64_t r = 0; r < kCount; ++r) {
      even[r] += Load(row + r * p.stride + t) * a;
      odd[r] += Load(row + r * p.stride + t + kLanes) * b;
    }
  }
  for (int64_t r = 0; r < kCount; ++r) {
    float sum = Fold(even[r] + odd[r]);
    for (int64_t rest = t; rest < p.terms; ++rest) sum += row[r * p.stride + rest] * p.vector[rest];
    p.y[j + r] = sum;
  }
}

[[gnu::always_inline]] inline void AlongLoop(const GemvPart& p) {
  int64_t j = 0;
  for (; j + 4 <= p.sums; j += 4) Dot<4>(p, j);
  for (; j < p.sums; ++j) Dot<1>(p, j);
}

void Across(const GemvPart& part) { AcrossLoop(part); }
void Along(const GemvPart& part) { AlongLoop(part); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] void AcrossAvx2(const GemvPart& part) { AcrossLoop(part); }
[[gnu::target("avx2")]] void AlongAvx2(const GemvPart& part) { AlongLoop(part); }
[[gnu::target("avx512f")]] void AcrossAvx512(const GemvPart& part) { AcrossLoop(part); }
[[gnu::target("avx512f")]] void AlongAvx512(const GemvPart& part) { AlongLoop(part); }
#endif

}  // namespace

const GemvRows& GetGemvRows() {
  static constexpr GemvRows kPlain = {Across, Along};
#if defined(__x86_64__)
  static constexpr GemvRows kAvx2 = {AcrossAvx2, AlongAvx2}, kAvx512 = {AcrossAvx512, AlongAvx512};
  if (__builtin_cpu_supports("avx512f") != 0) return kAvx512;
  if (__builtin_cpu_supports("avx2") != 0) return kAvx2;
#endif
  return kPlain;
}

}  // namespace kiln::library
