// SPDX-License-Identifier: Apache-2.0
// Running the passes of a cell.
//
// A pass is cut into units: (row, chunk of the reduced dim, chunk of the tile), numbered with the
// last fastest; the tile is the vector dim or, in a wide program, more (tile.h). Any worker may run
// any range of units. A unit of a reduction leaves the result of one block of the rule in kernel.h;
// when there are several to a result, they lie in `partials` until FinishPass reduces them again.
#ifndef KILN_EXEC_VM_RUN_H_
#define KILN_EXEC_VM_RUN_H_

#include <cstddef>
#include <cstdint>

#include "exec/vm/launch_state.h"
#include "exec/vm/worker.h"

namespace kiln::vm {

size_t FrameBytes(const Pass& pass);
// Lays a frame out in `memory` and runs the instructions that run once.
void StartFrame(const Pass& pass, Worker& worker, void* memory, Frame& frame);

// Runs units [begin, end). `partials[s]` is where sink s leaves its results if units.parts > 1.
void RunUnits(const Pass& pass, const Units& units, int64_t begin, int64_t end,
              uint8_t* const* partials, Worker& worker, Frame& frame);

// After all units: reduces partial results into the temporaries, or fills them where there was
// nothing to reduce.
void FinishPass(const Pass& pass, const Units& units, uint8_t* const* partials,
                const Worker& worker);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_RUN_H_
