// SPDX-License-Identifier: Apache-2.0
// The loops are compiled once per instruction set by Highway's foreach_target: AVX-512, AVX2, and
// the least x86-64 has.
#include "exec/library/gemv_rows.h"

#include <algorithm>
#include <cstring>

#include "base/cpu_features.h"
#include "hwy/detect_targets.h"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/library/gemv_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::library {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;

// 16 lanes whatever the registers are: the order of sums is the same on every processor.
constexpr int64_t kLanes = 16;  // correctness
constexpr int64_t kWidth = hn::MaxLanes(D()), kRegisters = kLanes / kWidth;

struct Lanes {
  hn::Vec<D> part[kRegisters];
};

HWY_INLINE Lanes Zero() {
  Lanes v;
  for (int64_t i = 0; i < kRegisters; ++i) v.part[i] = hn::Zero(D());
  return v;
}
HWY_INLINE Lanes Load(const float* from) {
  Lanes v;
  for (int64_t i = 0; i < kRegisters; ++i) v.part[i] = hn::LoadU(D(), from + i * kWidth);
  return v;
}
HWY_INLINE void Store(const Lanes& v, float* to) {
  for (int64_t i = 0; i < kRegisters; ++i) hn::StoreU(v.part[i], D(), to + i * kWidth);
}
HWY_INLINE void Add(Lanes& sum, const Lanes& v) {
  for (int64_t i = 0; i < kRegisters; ++i) sum.part[i] = hn::Add(sum.part[i], v.part[i]);
}
// Adds from[0, kLanes) * by, each rounded.
HWY_INLINE void AddProduct(Lanes& sum, const float* from, const Lanes& by) {
  for (int64_t i = 0; i < kRegisters; ++i)
    sum.part[i] = hn::Add(sum.part[i], hn::Mul(hn::LoadU(D(), from + i * kWidth), by.part[i]));
}
HWY_INLINE void AddProduct(Lanes& sum, const float* from, float by) {
  for (int64_t i = 0; i < kRegisters; ++i)
    sum.part[i] =
        hn::Add(sum.part[i], hn::Mul(hn::LoadU(D(), from + i * kWidth), hn::Set(D(), by)));
}

// Sums that stay in the first-level cache while the rows pass.
constexpr int64_t kBlock = 4096;  // speed
// Rows read side by side: as many streams as a prefetcher follows.
constexpr int64_t kRows = 8;  // speed

// kAhead: also asks for what lies `ahead` elements further.
template <int64_t kCount, bool kAhead = false>
HWY_INLINE void AddRows(const float* const* rows, const float* scale, float* y, int64_t n,
                        int64_t ahead = 0) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Lanes sum = Load(y + j);
    for (int64_t r = 0; r < kCount; ++r) {
      AddProduct(sum, rows[r] + j, scale[r]);
      if constexpr (kAhead) __builtin_prefetch(rows[r] + j + ahead);
    }
    Store(sum, y + j);
  }
  for (; j < n; ++j) {
    float sum = y[j];
    for (int64_t r = 0; r < kCount; ++r) sum += rows[r][j] * scale[r];
    y[j] = sum;
  }
}

// Up to this many columns the sums of four lanes stay in registers while all rows pass; more hide
// the latency of one sum behind the others.
constexpr int64_t kTile = 4 * kLanes, kNarrow = 2 * kTile;  // speed

// The sums of kTile columns, as AddRows makes them of all rows.
HWY_INLINE void AddTile(const float* row, int64_t stride, const float* scale, int64_t count,
                        float* y) {
  Lanes sums[4] = {Zero(), Zero(), Zero(), Zero()};
  for (int64_t t = 0; t < count; ++t, row += stride) {
    for (int64_t c = 0; c < 4; ++c) AddProduct(sums[c], row + c * kLanes, scale[t]);
  }
  for (int64_t c = 0; c < 4; ++c) Store(sums[c], y + c * kLanes);
}

// y[0, n) = the sums of columns [begin, begin + n) over the terms [t, end).
HWY_INLINE void AddShare(const GemvPart& p, int64_t begin, int64_t n, int64_t t, int64_t end,
                         float* y) {
  const auto row = [&](int64_t term) { return p.matrix + term * p.stride + begin; };
  if (n <= kNarrow && !p.prefetch) {
    for (; n >= kTile; begin += kTile, n -= kTile, y += kTile)
      AddTile(row(t), p.stride, p.vector + t, end - t, y);
  }
  if (n == 0) return;
  std::fill(y, y + n, 0.0F);
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
HWY_INLINE void AddShares(float* partial, int64_t shares, int64_t n, float* y) {
  for (int64_t step = 1; step < shares; step *= 2) {
    for (int64_t s = 0; s < shares; s += 2 * step) {
      float* const to = partial + s * n;
      const float* const from = to + step * n;
      int64_t j = 0;
      for (; j + kLanes <= n; j += kLanes) {
        Lanes sum = Load(to + j);
        Add(sum, Load(from + j));
        Store(sum, to + j);
      }
      for (; j < n; ++j) to[j] += from[j];
    }
  }
  std::memcpy(y, partial, static_cast<size_t>(n) * sizeof(float));
}

// The sums of n columns from `begin` on.
HWY_INLINE void AddBlock(const GemvPart& p, int64_t begin, int64_t n) {
  for (int64_t k = 0; k < p.shares; ++k) {
    const int64_t share = p.backwards ? p.shares - 1 - k : k;
    AddShare(p, begin, n, p.terms * share / p.shares, p.terms * (share + 1) / p.shares,
             p.shares == 1 ? p.y + begin : p.partial + share * n);
  }
  if (p.shares > 1) AddShares(p.partial, p.shares, n, p.y + begin);
}

// Four lanes of a register that every processor has.
struct Quad {
  float x [[gnu::vector_size(4 * sizeof(float))]];
};

// The lanes are added by halves: those of one row, and of four, which share the last halvings.
HWY_INLINE Quad FoldToQuad(const Lanes& sum) {
  float lanes[kLanes];
  Store(sum, lanes);
  Quad q[4];
  std::memcpy(q, lanes, sizeof q);
  return {(q[0].x + q[2].x) + (q[1].x + q[3].x)};
}
HWY_INLINE void Folds(const Lanes (&sums)[1], float* y) {
  const Quad q = FoldToQuad(sums[0]);
  y[0] = (q.x[0] + q.x[2]) + (q.x[1] + q.x[3]);
}
HWY_INLINE void Folds(const Lanes (&sums)[4], float* y) {
  const auto pairs = [](Quad a, Quad b) __attribute__((always_inline)) {
    return Quad{__builtin_shufflevector(a.x, b.x, 0, 1, 4, 5) +
                __builtin_shufflevector(a.x, b.x, 2, 3, 6, 7)};
  };
  const Quad a = pairs(FoldToQuad(sums[0]), FoldToQuad(sums[1]));
  const Quad b = pairs(FoldToQuad(sums[2]), FoldToQuad(sums[3]));
  const Quad all = {__builtin_shufflevector(a.x, b.x, 0, 2, 4, 6) +
                    __builtin_shufflevector(a.x, b.x, 1, 3, 5, 7)};
  std::memcpy(y, &all, sizeof all);
}

// How many elements further four rows are asked for: the processor follows each, and starts anew
// with the next four. So short rows ask for rows to come, and long ones for more of themselves.
HWY_INLINE int64_t Ahead(const GemvPart& p) {
  constexpr int64_t kShort = 512;  // speed: elements
  if (p.stride > kShort) return kShort;
  return p.backwards ? -8 * p.stride : 8 * p.stride;
}

// kCount sums at once, each in two accumulators.
template <int64_t kCount>
HWY_INLINE void Dot(const GemvPart& p, int64_t j) {
  const float* const row = p.matrix + j * p.stride;
  [[maybe_unused]] const int64_t ahead = Ahead(p);
  Lanes even[kCount], odd[kCount];
  for (int64_t r = 0; r < kCount; ++r) even[r] = odd[r] = Zero();
  int64_t t = 0;
  for (; t + 2 * kLanes <= p.terms; t += 2 * kLanes) {
    const Lanes a = Load(p.vector + t), b = Load(p.vector + t + kLanes);
    for (int64_t r = 0; r < kCount; ++r) {
      const float* const x = row + r * p.stride + t;
      if constexpr (kCount > 1) {
        __builtin_prefetch(x + ahead);
        __builtin_prefetch(x + ahead + kLanes);
      }
      AddProduct(even[r], x, a);
      AddProduct(odd[r], x + kLanes, b);
    }
  }
  for (int64_t r = 0; r < kCount; ++r) Add(even[r], odd[r]);
  float sums[kCount];
  Folds(even, sums);
  for (int64_t r = 0; r < kCount; ++r) {
    for (int64_t rest = t; rest < p.terms; ++rest)
      sums[r] += row[r * p.stride + rest] * p.vector[rest];
    p.y[j + r] = sums[r];
  }
}

void Across(const GemvPart& part) {
  const int64_t blocks = (part.sums + kBlock - 1) / kBlock;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = (part.backwards ? blocks - 1 - i : i) * kBlock;
    AddBlock(part, begin, std::min(kBlock, part.sums - begin));
  }
}

void Along(const GemvPart& part) {
  const int64_t fours = part.sums / 4;
  for (int64_t i = 0; i < fours; ++i) Dot<4>(part, 4 * (part.backwards ? fours - 1 - i : i));
  for (int64_t j = 4 * fours; j < part.sums; ++j) Dot<1>(part, j);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kiln::library
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kiln::library {

int64_t Shares(int64_t terms, int64_t sums) {
  // Shares of long rows would only move their partial sums; their blocks can change places.
  if (sums > 2 * HWY_NAMESPACE::kBlock) return 1;
  int64_t shares = 1;
  while (shares < 8 && terms / shares >= 8 * HWY_NAMESPACE::kRows) shares *= 2;
  return shares;
}

const GemvRows& GetGemvRows() {
  static constexpr GemvRows kLeast = {HWY_NAMESPACE::Across, HWY_NAMESPACE::Along};
#if defined(__x86_64__)
  static constexpr GemvRows kV3 = {N_AVX2::Across, N_AVX2::Along},
                            kV4 = {N_AVX3::Across, N_AVX3::Along};
  if (HostIsa() == IsaLevel::kV4) return kV4;
  if (HostIsa() == IsaLevel::kV3) return kV3;
#endif
  return kLeast;
}

}  // namespace kiln::library
#endif  // HWY_ONCE
