// SPDX-License-Identifier: Apache-2.0
// Blocks over several dims, and where their elements lie.
//
// A block of a pass covers consecutive elements, in row-major order, of its last dims: all of the
// inner ones and some coordinates of the first. Rows [a = 100, b = 40] of a wide program: dims a
// and b, blocks of 2000 elements (50 rows), inner = 40, length = 4000. The narrow program takes b
// alone: inner = 1, length = 40, blocks of 512.
//
// A block starts at coordinate 0 of its inner dims. So where an element lies, relative to the start
// of its block, is the same for every block, and is worked out once per launch as a Pattern
// (pattern.h).
#ifndef KILN_EXEC_VM_TILE_H_
#define KILN_EXEC_VM_TILE_H_

#include <cstddef>
#include <cstdint>

#include "exec/vm/pattern.h"
#include "exec/vm/program.h"

namespace kiln::vm {

struct Tile {
  int32_t first = 0;       // among the pass's rows; rows.size() is the vector dim
  int64_t inner = 1;       // elements to one coordinate of the first dim
  int64_t length = 1;      // elements of all its coordinates
  int64_t block = kBlock;  // elements of a block: a multiple of inner
  bool Spans(const Pass& pass) const { return first < static_cast<int32_t>(pass.rows.size()); }
};

// The dim of a pass at place k among its rows and the vector dim.
inline int32_t DimAt(const Pass& pass, int32_t k) {
  return k < static_cast<int32_t>(pass.rows.size()) ? pass.rows[static_cast<size_t>(k)] : pass.vec;
}

// With `wide`, over as many dims as fit into a block. Extents are those of the loops.
Tile TileOf(const Pass& pass, const int64_t* extents, bool wide);

struct Linear {
  int64_t offset = 0;
  int64_t step[kMaxDims] = {};
};

// Bytes for what a Pattern points to.
inline constexpr size_t kPatternBytes =
    kMaxSpans * sizeof(Span) + static_cast<size_t>(kMostWideBlock) * sizeof(int32_t);

static_assert(static_cast<size_t>(kMostWideBlock) / 8 * sizeof(Window) + kMostWideBlock <=
                  kMaxSpans * sizeof(Span),
              "windows and picks lie in place of spans");

// Adds to at[i], for the first n elements of a block, what the steps add to the block's start.
void AddSteps(const Linear& linear, const Pass& pass, const Tile& tile, const int64_t* extents,
              size_t n, int64_t* at);

// Whether the elements of the pass's blocks lie evenly, `step` apart, however many dims they span.
bool LieEvenly(const Linear& linear, const Pass& pass, const Tile& tile, const int64_t* extents,
               int64_t& step);

// Whether that is so for the inner dims of blocks, while the first dim goes from each element to
// its neighbour: blocks are matrices read by columns.
bool LieTransposed(const Linear& linear, const Pass& pass, const Tile& tile, const int64_t* extents,
                   int64_t& step);

// Positions of n elements of a block: at[i] + r * step for element i of run r; INT64_MIN: outside.
struct Positions {
  const int64_t* at = nullptr;
  size_t run = 0;    // elements
  int64_t step = 0;  // from one run to the next
  size_t n = 0;      // a multiple of `run`
};

// Their pattern, in `memory`, with windows for vectors of `window` elements unless that is 0. False
// if one is too far from the start.
bool MakePattern(const Positions& positions, size_t window, void* memory, Pattern& pattern);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_TILE_H_
