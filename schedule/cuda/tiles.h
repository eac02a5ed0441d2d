// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels on a GPU of which some inputs are contiguous along another dim than the
// outputs: tiles of those are transposed in shared memory.
//
// A block takes 32 by 32 elements, along the innermost dim and along `along`. Warps read such
// inputs along theirs and write the outputs along the innermost; in between a tile has 33 places
// for each of its rows, so that neither way two threads meet at a bank.
//
// Example: `tiles along=0 rows=8`
#ifndef KILN_SCHEDULE_CUDA_TILES_H_
#define KILN_SCHEDULE_CUDA_TILES_H_

#include <cstdint>
#include <vector>

#include "schedule/cuda/streaming.h"
#include "schedule/schedule.h"

namespace kiln {

inline constexpr int64_t kTileStride = kWarp + 1;  // speed: no bank conflicts

struct Tiles : FieldsOf<Tiles> {
  int64_t along = 0;  // the dim along which the inputs are contiguous
  int64_t rows = 8;   // warps of a block, each with every so many-th row of the tile

  void Visit(FieldVisitor& fields) override {
    fields.Dim("along", along);
    fields.Int("rows", rows, {1, kWarp});
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel& kernel) const override {
    return {.step = 1,
            .transposes = true,
            .along = along,
            .tile = kWarp,
            .grid = {.columns = kWarp,
                     .rows = rows,
                     .steps = kWarp / rows,
                     .shared_bytes = SharedBytes(kernel)}};
  }
  LaunchInfo Info() const override { return {.step = kWarp, .columns = kWarp, .in_place = {}}; }

  // The inputs whose tiles are transposed, and the bytes of these tiles.
  std::vector<int64_t> Transposed(const Kernel& kernel) const;
  int64_t SharedBytes(const Kernel& kernel) const;
};
extern const Template kTiles;

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_TILES_H_
