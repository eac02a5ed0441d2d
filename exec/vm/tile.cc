// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/vm/tile.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kiln/exec/vm/with_size.h"

namespace kiln::vm {
namespace {

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();

// Spans shorter than this on average are slower than element by element.
constexpr size_t kLeastSpan = 8;

// The span that starts at element i.
Span SpanAt(const int64_t* at, size_t n, size_t i) {
  Span span;
  span.begin = static_cast<int32_t>(i);
  span.outside = at[i] == kNowhere;
  if (span.outside) {
    while (i < n && at[i] == kNowhere) ++i;
  } else {
    span.offset = static_cast<int32_t>(at[i]);
    const bool more = i + 1 < n && at[i + 1] != kNowhere;
    span.step = more ? static_cast<int32_t>(at[i + 1] - at[i]) : 1;
    for (++i; i < n && at[i] != kNowhere && at[i] - at[i - 1] == span.step;) ++i;
  }
  span.end = static_cast<int32_t>(i);
  return span;
}

}  // namespace

Tile TileOf(const Pass& pass, const int64_t* extents, bool wide) {
  Tile tile;
  tile.first = static_cast<int32_t>(pass.rows.size());
  tile.length = pass.vec < 0 ? 1 : extents[pass.vec];
  if (!wide || pass.vec < 0) return tile;
  while (tile.first > 0 && 3 * tile.length <= kBlock) {
    tile.inner = tile.length;
    tile.length *= extents[DimAt(pass, --tile.first)];
  }
  // Blocks of whole vectors where that takes few coordinates.
  const int64_t most = kBlock / tile.inner;
  const int64_t even =
      static_cast<int64_t>(kVectorElements) / std::gcd(tile.inner, int64_t{kVectorElements});
  tile.block = (most >= even ? most / even * even : most) * tile.inner;
  return tile;
}

void AddSteps(const Linear& linear, const Pass& pass, const Tile& tile, const int64_t* extents,
              size_t n, int64_t* at) {
  size_t below = 1;  // elements to one coordinate of the dim
  for (auto k = static_cast<int32_t>(pass.rows.size()); k >= tile.first; --k) {
    const int32_t d = DimAt(pass, k);
    if (d < 0) return;
    const int64_t step = linear.step[d], extent = extents[d];
    if (step != 0 && below == 1) {
      for (size_t i = 0; i < n;) {
        const size_t count = std::min(n - i, static_cast<size_t>(extent));
        for (size_t c = 0; c < count; ++c) at[i + c] += step * static_cast<int64_t>(c);
        i += count;
      }
    } else if (step != 0) {
      int64_t coordinate = 0;
      for (size_t i = 0; i < n;) {
        const size_t count = std::min(n - i, below);
        const int64_t add = step * coordinate;
        for (size_t j = 0; j < count; ++j) at[i + j] += add;
        i += count;
        if (++coordinate == extent) coordinate = 0;
      }
    }
    below *= static_cast<size_t>(extent);
  }
}

bool MakePattern(const int64_t* at, size_t n, void* memory, Pattern& pattern) {
  pattern = Pattern();
  for (size_t i = 0; i < n; ++i) {
    if (at[i] != kNowhere && (at[i] <= kOutside || at[i] > std::numeric_limits<int32_t>::max()))
      return false;
  }
  auto* spans = static_cast<Span*>(memory);
  size_t done = 0;
  while (done < n && pattern.num_spans < kMaxSpans) {
    spans[pattern.num_spans] = SpanAt(at, n, done);
    done = static_cast<size_t>(spans[pattern.num_spans++].end);
  }
  if (done == n && pattern.num_spans == 1 && !spans[0].outside) {
    pattern.start = spans[0].offset;
    pattern.step = n > 1 ? spans[0].step : 0;
    return true;
  }
  if (done == n && pattern.num_spans * kLeastSpan <= n) {
    pattern.spans = spans;
    return true;
  }
  auto* offsets = reinterpret_cast<int32_t*>(spans + kMaxSpans);
  for (size_t i = 0; i < n; ++i)
    offsets[i] = at[i] == kNowhere ? kOutside : static_cast<int32_t>(at[i]);
  pattern.offsets = offsets;
  return true;
}

void GatherPattern(size_t size, void* own, const uint8_t* base, const Pattern& pattern, size_t n) {
  const auto bytes = static_cast<int64_t>(size);
  if (pattern.offsets != nullptr) {
    WithSize(size, [&](auto zero) {
      using T = decltype(zero);
      const auto* from = reinterpret_cast<const T*>(base);
      for (size_t i = 0; i < n; ++i) {
        const int32_t at = pattern.offsets[i];
        static_cast<T*>(own)[i] = at == kOutside ? T{0} : from[at];
      }
    });
    return;
  }
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

void ScatterPattern(size_t size, uint8_t* base, const Pattern& pattern, const void* own, size_t n) {
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

}  // namespace kiln::vm
