// SPDX-License-Identifier: Apache-2.0
#include "exec/library/gemv_rows.h"

#include <algorithm>
#include <cstring>

namespace kiln::library {
namespace {

// 16 lanes whatever the registers are: the order of sums is the same on every processor.
constexpr int64_t kLanes = 16;  // correctness
using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;

[[gnu::always_inline]] inline Lanes Load(const float* from) {
  Lanes v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void Store(float* to, Lanes v) { std::memcpy(to, &v, sizeof v); }

// Sums that stay in the first-level cache while the rows pass.
constexpr int64_t kBlock = 4096;  // speed
// Rows read side by side: as many streams as a prefetcher follows.
constexpr int64_t kRows = 8;  // speed

// kAhead: also asks for what lies `ahead` elements further.
template <int64_t kCount, bool kAhead = false>
[[gnu::always_inline]] inline void AddRows(const float* const* rows, const float* scale, float* y,
                                           int64_t n, int64_t ahead = 0) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Lanes sum = Load(y + j);
    for (int64_t r = 0; r < kCount; ++r) {
      sum += Load(rows[r] + j) * scale[r];
      if constexpr (kAhead) __builtin_prefetch(rows[r] + j + ahead);
    }
    Store(y + j, sum);
  }
  for (; j < n; ++j) {
    float sum = y[j];
    for (int64_t r = 0; r < kCount; ++r) sum += rows[r][j] * scale[r];
    y[j] = sum;
  }
}

// y[0, n) = the sums of columns [begin, begin + n) over the terms [t, end).
[[gnu::always_inline]] inline void AddShare(const GemvPart& p, int64_t begin, int64_t n, int64_t t,
                                            int64_t end, float* y) {
  std::fill(y, y + n, 0.0F);
  const auto row = [&](int64_t term) { return p.matrix + term * p.stride + begin; };
  for (; t + kRows <= end; t += kRows) {
    const float* rows[kRows];
    for (int64_t r = 0; r < kRows; ++r) rows[r] = row(t + r);
    if (p.prefetch && t + 2 * kRows <= end) {
      AddRows<kRows, true>(rows, p.vector + t, y, n, kRows * p.stride);
    } else {
      AddRows<kRows>(rows, p.vector + t, y, n);
    }
  }
  for (; t < end; ++t) {
    const float* const last = row(t);
    AddRows<1>(&last, p.vector + t, y, n);
  }
}

// Neighbours are added, then neighbouring pairs: the same whichever came first.
[[gnu::always_inline]] inline void AddShares(float* partial, int64_t shares, int64_t n, float* y) {
  for (int64_t step = 1; step < shares; step *= 2) {
    for (int64_t s = 0; s < shares; s += 2 * step) {
      float* const to = partial + s * n;
      const float* const from = to + step * n;
      for (int64_t j = 0; j < n; ++j) to[j] += from[j];
    }
  }
  std::memcpy(y, partial, static_cast<size_t>(n) * sizeof(float));
}

[[gnu::always_inline]] inline void AcrossLoop(const GemvPart& p) {
  const int64_t blocks = (p.sums + kBlock - 1) / kBlock;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = (p.backwards ? blocks - 1 - i : i) * kBlock;
    const int64_t n = std::min(kBlock, p.sums - begin);
    for (int64_t k = 0; k < p.shares; ++k) {
      const int64_t share = p.backwards ? p.shares - 1 - k : k;
      AddShare(p, begin, n, p.terms * share / p.shares, p.terms * (share + 1) / p.shares,
               p.shares == 1 ? p.y + begin : p.partial + share * n);
    }
    if (p.shares > 1) AddShares(p.partial, p.shares, n, p.y + begin);
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

// The same of one row, and of four, which share the vectors of each halving.
[[gnu::always_inline]] inline void Folds(const Lanes (&sums)[1], float* y) { y[0] = Fold(sums[0]); }
[[gnu::always_inline]] inline void Folds(const Lanes (&sums)[4], float* y) {
  const auto eights = [](Lanes a, Lanes b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                   31);
  };
  const Lanes a = eights(sums[0], sums[1]), b = eights(sums[2], sums[3]);
  Lanes all =
      __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  all += __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  all += __builtin_shufflevector(all, all, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  for (int r = 0; r < 4; ++r) y[r] = all[4 * r];
}

// How many elements further four rows are asked for: the processor follows each, and starts anew
// with the next four. So short rows ask for rows to come, and long ones for more of themselves.
[[gnu::always_inline]] inline int64_t Ahead(const GemvPart& p) {
  constexpr int64_t kShort = 512;  // speed: elements
  if (p.stride > kShort) return kShort;
  return p.backwards ? -8 * p.stride : 8 * p.stride;
}

// kCount sums at once, each in two accumulators.
template <int64_t kCount>
[[gnu::always_inline]] inline void Dot(const GemvPart& p, int64_t j) {
  const float* const row = p.matrix + j * p.stride;
  [[maybe_unused]] const int64_t ahead = Ahead(p);
  Lanes even[kCount] = {}, odd[kCount] = {};
  int64_t t = 0;
  for (; t + 2 * kLanes <= p.terms; t += 2 * kLanes) {
    const Lanes a = Load(p.vector + t), b = Load(p.vector + t + kLanes);
    for (int64_t r = 0; r < kCount; ++r) {
      const float* const x = row + r * p.stride + t;
      if constexpr (kCount > 1) {
        __builtin_prefetch(x + ahead);
        __builtin_prefetch(x + ahead + kLanes);
      }
      even[r] += Load(x) * a;
      odd[r] += Load(x + kLanes) * b;
    }
  }
  for (int64_t r = 0; r < kCount; ++r) even[r] += odd[r];
  float sums[kCount];
  Folds(even, sums);
  for (int64_t r = 0; r < kCount; ++r) {
    for (int64_t rest = t; rest < p.terms; ++rest)
      sums[r] += row[r * p.stride + rest] * p.vector[rest];
    p.y[j + r] = sums[r];
  }
}

[[gnu::always_inline]] inline void AlongLoop(const GemvPart& p) {
  const int64_t fours = p.sums / 4;
  for (int64_t i = 0; i < fours; ++i) Dot<4>(p, 4 * (p.backwards ? fours - 1 - i : i));
  for (int64_t j = 4 * fours; j < p.sums; ++j) Dot<1>(p, j);
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

int64_t Shares(int64_t terms, int64_t sums) {
  // Shares of long rows would only move their partial sums; their blocks can change places.
  if (sums > 2 * kBlock) return 1;
  int64_t shares = 1;
  while (shares < 8 && terms / shares >= 8 * kRows) shares *= 2;
  return shares;
}

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
