// SPDX-License-Identifier: Apache-2.0
// LoopSummary: what the loops of a schedule are like, as far as their price depends on it.
//
// Each template says it of its own fields, so that the cost model (price.h) reads none of them.
#ifndef KILN_SCHEDULE_LOOPS_H_
#define KILN_SCHEDULE_LOOPS_H_

#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// Elements of a transposed tile along the operands; along the row it has LoopSummary::tile.
inline constexpr int64_t kTileRows = 8;  // correctness

// How threads of a GPU lie over a kernel: `columns` of a block along the innermost dim, or together
// on what a row is reduced to, by `rows` along the others or, where columns are reduced, along
// them. What is reduced is dealt out, `run` elements at a time, to `parts` groups of a block's
// threads, which leave their results in shared memory; within a group threads lie along it, if at
// all.
//
// Example: 8 threads for each of 32 columns are {.columns = 32, .rows = 8, .parts = 8, .run = 32}.
struct Grid {
  int64_t columns = 128, rows = 1;
  int64_t vector = 1;             // elements that a thread loads and stores at once, side by side
  int64_t steps = 1;              // of such loads that a thread has on their way together
  std::vector<bool> inputs = {};  // that are in registers from the first pass over a row on
  int64_t parts = 1, run = 1;
  int64_t shared_bytes = 0;  // of a block
  // Launches of each reduction along the innermost dim, and along another; 0: those of the outputs
  // make it.
  int64_t levels = 0, outer_levels = 0;
};

struct LoopSummary {
  // How the stages of a kernel lie in loop nests.
  enum class Nests : uint8_t {
    kOne,    // one nest makes every output, maps are computed where they are read
    kRows,   // what a row needs is made right before its outputs
    kTiles,  // what a tile of columns needs is; their dims are reduced one after the other
    kEach,   // each stage is made whole before it is read
  };
  // How vectors go over rows that are shorter than they.
  enum class Across : uint8_t {
    kNo,          // vectors run along rows
    kUnrolled,    // across rows, one expression for each element
    kTransposed,  // across rows, which are transposed in tiles on their way in and out
    kBlocks,      // over whole blocks, shuffled
  };
  // How a row with guards runs that depend on its coordinate.
  enum class Segments : uint8_t { kNone, kInTurn, kBlended };

  Nests nests = Nests::kOne;
  Across across = Across::kNo;
  Segments segments = Segments::kNone;
  int64_t step = 16;      // elements of a vector loop step, or rows of one across them
  int64_t lane_dims = 0;  // dims that vectors across rows run along as one; 0: no matter
  int64_t links = 1;      // loops that a long chain is cut into
  // Reductions over other dims than the innermost: elements of a row that a step takes, and those
  // that it takes in steps before the next row.
  int64_t columns = 16;
  int64_t row_dims = 1;            // innermost dims that the innermost loop runs over as one
  bool sums_in_cache = false;      // of such reductions, which load and store them for each row
  bool rows_in_cache = false;      // such reductions read rows that others have just read
  bool joins = false;              // reductions of a pass (reductions.h), and outputs, share a loop
  bool strides = false;            // such reductions go down whole columns before the next tile
  bool transposes = false;         // operands that lie in another order are transposed in tiles
  int64_t order = -1;              // the dim that the loop next to the innermost runs along
  int64_t along = -1;              // the dim along which these are contiguous
  int64_t tile = 16;               // elements of a tile along the row
  int64_t tiles = 1;               // along the row before the next along the other dim
  bool folds_together = false;     // the trees of several rows share vectors
  int64_t batch = 1;               // rows that take a stage one after the other
  bool one_row_at_a_time = false;  // so that what a row has one of is computed without vectors
  Grid grid = {};
  std::vector<bool> stored = {};    // stages; reductions are stored anyway
  std::vector<bool> expanded = {};  // inputs whose broadcast is dense
};

}  // namespace kiln

#endif  // KILN_SCHEDULE_LOOPS_H_
