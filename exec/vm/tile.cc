// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/tile.h"

#include <algorithm>
#include <numeric>

namespace kiln::vm {
namespace {

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();

// Spans shorter than this on average are slower than element by element, or than windows.
constexpr size_t kLeastSpan = 8, kLeastSpanBesideWindows = 40;  // speed

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

// Appends a span, or makes the last one longer; false if there are too many.
bool Append(Span span, Span* spans, size_t& count) {
  if (count > 0) {
    Span& last = spans[count - 1];
    const int32_t length = last.end - last.begin;
    const bool even = span.end - span.begin == 1 || span.step == last.step;
    const bool next = int64_t{last.offset} + int64_t{last.step} * length == span.offset;
    if (last.outside == span.outside && (span.outside || (even && next))) {
      last.end = span.end;
      return true;
    }
  }
  if (count == kMaxSpans) return false;
  spans[count++] = span;
  return true;
}

// False if there are too many spans. Those of the first run are those of the others, moved.
bool MakeSpans(const Positions& positions, Span* spans, size_t& count) {
  count = 0;
  for (size_t i = 0; i < positions.run;) {
    const Span span = SpanAt(positions.at, positions.run, i);
    if (!Append(span, spans, count)) return false;
    i = static_cast<size_t>(span.end);
  }
  if (positions.n == positions.run) return true;
  const size_t of_run = count;
  if (positions.n / positions.run * of_run > 2 * kMaxSpans) return false;
  Span first_run[kMaxSpans];
  std::copy_n(spans, of_run, first_run);
  for (size_t first = positions.run; first < positions.n; first += positions.run) {
    const int64_t more = static_cast<int64_t>(first / positions.run) * positions.step;
    for (size_t k = 0; k < of_run; ++k) {
      Span span = first_run[k];
      span.begin += static_cast<int32_t>(first);
      span.end += static_cast<int32_t>(first);
      span.offset += static_cast<int32_t>(span.outside ? 0 : more);
      if (!Append(span, spans, count)) return false;
    }
  }
  return true;
}

// Whether all positions, and the steps between them, are 32-bit numbers.
bool WithinReach(const Positions& positions) {
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < positions.run; ++i) {
    if (positions.at[i] == kNowhere) continue;
    low = std::min(low, positions.at[i]);
    high = std::max(high, positions.at[i]);
  }
  const int64_t more = static_cast<int64_t>(positions.n / positions.run - 1) * positions.step;
  constexpr int64_t kReach = std::numeric_limits<int32_t>::max() / 4;  // correctness
  return low + std::min<int64_t>(more, 0) > -kReach && high + std::max<int64_t>(more, 0) < kReach;
}

// The window of offsets[0, count), and the picks of these.
Window WindowOf(const int32_t* offsets, size_t count, size_t most, int8_t* picks) {
  int64_t low = std::numeric_limits<int64_t>::max(), high = kNowhere;
  for (size_t i = 0; i < count; ++i) {
    if (offsets[i] == kOutside) continue;
    low = std::min<int64_t>(low, offsets[i]);
    high = std::max<int64_t>(high, offsets[i]);
  }
  if (high == kNowhere) return {0, kNothing};
  if (high - low >= static_cast<int64_t>(most)) return {};
  for (size_t i = 0; i < count; ++i)
    picks[i] = offsets[i] == kOutside ? int8_t{-1} : static_cast<int8_t>(offsets[i] - low);
  return {static_cast<int32_t>(low), static_cast<int32_t>(high - low + 1)};
}

}  // namespace

Tile TileOf(const Pass& pass, const int64_t* extents, bool wide) {
  Tile tile;
  tile.first = static_cast<int32_t>(pass.rows.size());
  tile.length = pass.vec < 0 ? 1 : extents[pass.vec];
  tile.block = pass.block;
  if (!wide || pass.vec < 0) return tile;
  while (tile.first > 0 && tile.length <= kBlock && 2 * tile.length <= pass.block) {
    tile.inner = tile.length;
    tile.length *= extents[DimAt(pass, --tile.first)];
  }
  // Blocks of whole vectors where that takes few coordinates.
  const int64_t most = pass.block / tile.inner;
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

namespace {

// LieEvenly for the dims from place `first` on.
bool LieEvenlyFrom(int32_t first, const Linear& linear, const Pass& pass, const int64_t* extents,
                   int64_t& step) {
  step = 0;
  int64_t below = 0;  // the step that continues the dims inside; 0: there are none yet
  for (auto k = static_cast<int32_t>(pass.rows.size()); k >= first; --k) {
    const int32_t d = DimAt(pass, k);
    if (d < 0 || extents[d] == 1) continue;
    if (below == 0) {
      step = linear.step[d];
      if (step == 0 && k > first) return false;
    } else if (linear.step[d] != below) {
      return false;
    }
    below = linear.step[d] * extents[d];
  }
  return true;
}

}  // namespace

bool LieEvenly(const Linear& linear, const Pass& pass, const Tile& tile, const int64_t* extents,
               int64_t& step) {
  return LieEvenlyFrom(tile.first, linear, pass, extents, step);
}

bool LieTransposed(const Linear& linear, const Pass& pass, const Tile& tile, const int64_t* extents,
                   int64_t& step) {
  return tile.Spans(pass) && linear.step[DimAt(pass, tile.first)] == 1 &&
         LieEvenlyFrom(tile.first + 1, linear, pass, extents, step) && step != 0;
}

bool MakePattern(const Positions& positions, size_t window, void* memory, Pattern& pattern) {
  pattern = Pattern();
  const size_t n = positions.n;
  if (!WithinReach(positions)) return false;
  auto* spans = static_cast<Span*>(memory);
  const bool all = MakeSpans(positions, spans, pattern.num_spans);
  if (all && pattern.num_spans == 1 && !spans[0].outside) {
    pattern.start = spans[0].offset;
    pattern.step = n > 1 ? spans[0].step : 0;
    return true;
  }
  const size_t least = window > 0 ? kLeastSpanBesideWindows : kLeastSpan;
  if (all && pattern.num_spans * least <= n) {
    pattern.spans = spans;
    return true;
  }
  auto* offsets = reinterpret_cast<int32_t*>(spans + kMaxSpans);
  for (size_t first = 0; first < n; first += positions.run) {
    const int64_t more = static_cast<int64_t>(first / positions.run) * positions.step;
    for (size_t i = 0; i < positions.run; ++i) {
      const int64_t at = positions.at[i];
      offsets[first + i] = at == kNowhere ? kOutside : static_cast<int32_t>(at + more);
    }
  }
  pattern.offsets = offsets;
  if (window == 0) return true;
  auto* windows = static_cast<Window*>(memory);
  auto* picks = reinterpret_cast<int8_t*>(windows + static_cast<size_t>(kMostWideBlock) / window);
  const size_t run = positions.run % window == 0 ? positions.run : n;
  for (size_t i = 0; i < run; i += window)
    windows[i / window] = WindowOf(offsets + i, std::min(window, n - i), 2 * window, picks + i);
  for (size_t i = run; i < n; i += window) {  // as in the first run, moved
    const auto more = static_cast<int32_t>(static_cast<int64_t>(i / run) * positions.step);
    const Window& of_first = windows[i % run / window];
    windows[i / window] = {of_first.start + more, of_first.count};
    std::copy_n(picks + i % run, window, picks + i);
  }
  pattern.windows = windows;
  pattern.picks = picks;
  return true;
}

}  // namespace kiln::vm
