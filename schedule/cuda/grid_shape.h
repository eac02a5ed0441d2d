// SPDX-License-Identifier: Apache-2.0
// GridShape: how many blocks of threads a schedule launches on a GPU, and how evenly their threads
// share what is reduced (Grid of schedule/loops.h).
//
// Example: sums of 1024 columns of 4096 elements, with `columns vector=4 columns=8 rows=32
// levels=2`: the first level is 128 blocks, of 32 columns and 1024 elements of each, which 32
// threads share.
#ifndef KILN_SCHEDULE_CUDA_GRID_SHAPE_H_
#define KILN_SCHEDULE_CUDA_GRID_SHAPE_H_

#include <cstdint>

#include "schedule/loop_counts.h"

namespace kiln {

// A view of `counts`, which outlives it. Pure.
class GridShape {
 public:
  explicit GridShape(const LoopCounts& counts)
      : counts_(counts), kernel_(counts.kernel()), grid_(counts.loops().grid) {}

  // Whether reductions are launches of their own; else whether columns are reduced.
  bool Levelled() const { return grid_.levels + grid_.outer_levels > 0; }
  bool Tiled() const { return counts_.loops().nests == LoopSummary::Nests::kTiles; }
  double Vector() const { return static_cast<double>(grid_.vector); }
  double Parts() const { return static_cast<double>(grid_.parts); }
  double Threads() const { return static_cast<double>(grid_.columns * grid_.rows); }

  // The dim other than the innermost that is reduced; -1: none.
  int32_t ReducedDim() const;

  // Rows: the extents of all dims but the innermost and one that is transposed.
  double Outer() const;
  // Blocks of a launch of outputs, and over columns of which each block makes one of `pieces`.
  double Blocks() const;
  double TileBlocks(double pieces) const;

  // Threads for each that is at work all the time, where `length` elements are dealt out.
  double IdleFor(double length) const;
  // Lanes for each that is at work, in warps that have any such.
  double HalfWarpsFor(double length) const;

 private:
  const LoopCounts& counts_;
  const Kernel& kernel_;
  const Grid& grid_;
};

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_GRID_SHAPE_H_
