// SPDX-License-Identifier: Apache-2.0
// One launch of a Program: extents and addresses, worked out once and then only read by all
// workers.
//
// An element of an operand lies at `offset + sum of step[d] * coordinate[d]` elements from its
// start, as far as its position is linear in the coordinates; the other axes add their part element
// by element.
#ifndef KILN_EXEC_VM_LAUNCH_STATE_H_
#define KILN_EXEC_VM_LAUNCH_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exec/vm/program.h"
#include "exec/vm/tile.h"
#include "kernel/abi.h"

namespace kiln::vm {

// An axis with its run-time info; value = floor((offset + sum of step * coordinate) / div) mod
// `mod`, or a loaded position.
struct AxisState {
  Linear index;
  int64_t div = 1, mod = 0;
  int64_t extent = 0;
  int64_t stride = 0;  // elements
  int32_t load = 0;
  // Of a wide program. Invariant: in the pattern altogether. Else its values lie at most `low` and
  // `high` from that at the start of the block, and the pattern has what is added to that.
  bool invariant = false;
  int64_t low = 0, high = 0;
  int64_t At(int64_t value) const;  // of an axis that is not loaded: floor(value / div) mod `mod`
};

struct ReadState {
  const uint8_t* base = nullptr;  // inputs
  // Inputs: what lies before may be read, though it be no element that was asked for. Null where an
  // output shares the memory.
  const uint8_t* end = nullptr;
  size_t temp_offset = 0;  // temporaries: bytes into the cell's memory
  Linear linear;
  AxisState* axes = nullptr;  // guarded reads: every axis; else those that are not linear
  int32_t num_axes = 0;
  bool only_linear = true;  // all axes are linear (which a guarded read has in `axes`)
  bool patterned = false;   // `pattern` says where elements lie
  Pattern pattern;
  // Bytes from the start of a block to one that is to be fetched when it is read, and how many that
  // one covers; 0: none is.
  int64_t ahead = 0, covered = 0;
};

struct TempState {
  size_t offset = 0;  // bytes into the cell's memory
  int64_t elements = 0;
  Linear linear;
  Pattern pattern;  // of the pass that writes it
};

struct StoreState {
  Linear linear;
  Pattern pattern;
  int64_t ahead = 0, covered = 0;  // as of a read
};

// How a pass is cut into units, see run.h.
struct Units {
  int64_t rows = 1;                       // of the dims around the tile
  int64_t vec_chunks = 1, vec_chunk = 1;  // of the tile
  int64_t over_chunks = 1;                // kOuter: of the reduced dim
  int64_t count() const { return rows * vec_chunks * over_chunks; }
  // Chunks whose results become one, and the number of results.
  int64_t parts = 1, results = 1;
};

struct Launch {
  const Program* program = nullptr;
  LaunchContext* context = nullptr;
  int64_t* sizes = nullptr;    // extents of every dim
  int64_t* extents = nullptr;  // of the loops: those of a cell for the program's `group`
  void** params = nullptr;
  BufferArg** outputs = nullptr;
  bool large = false;         // arguments are as RunLargeVm takes them
  bool apart = true;          // no output lies over an input
  bool non_temporal = false;  // outputs are written around the caches
  ReadState* reads = nullptr;
  TempState* temps = nullptr;
  StoreState* stores = nullptr;  // one per output
  Tile* tiles = nullptr;         // one per pass
  Units* units = nullptr;        // one per pass
  size_t temp_bytes = 0;         // of one cell
  int64_t lines = 0;             // of the cache to be fetched with each operation
};

inline int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Where an axis is read that is asked for `position`: negative ones count from the end, and all are
// clamped.
inline int64_t LoadedPosition(int64_t position, int64_t extent) {
  return std::clamp<int64_t>(position < 0 ? position + extent : position, 0,
                             std::max<int64_t>(extent - 1, 0));
}

inline int64_t AxisState::At(int64_t value) const {
  if (div > 1) value = FloorDiv(value, div);
  return mod > 0 ? value - FloorDiv(value, mod) * mod : value;
}

// Bytes that BindLaunch needs for the arrays of a launch.
size_t LaunchBytes(const Program& program);

// The extent of dim `d` among the arguments of a launch; `large` as for RunLargeVm.
inline int64_t ExtentArgument(const Kernel& kernel, void** argv, size_t d, bool large) {
  const void* extent = argv[1 + kernel.inputs.size() + d];
  return large ? *static_cast<const int64_t*>(extent) : *static_cast<const int32_t*>(extent);
}

// Fills `launch` for these arguments; its arrays lie in `memory`. A cell has `group_extent`
// coordinates of the program's group. False if a temporary would be larger than any memory, an
// operand of a wide program too far apart, or an element that is read without a guard outside.
bool BindLaunch(const Program& program, void** argv, bool large, int64_t group_extent, void* memory,
                Launch& launch);

// The coordinates of its group that a cell of a wide program takes at these extents; 0 if the
// narrow program is the better one.
int64_t GroupExtent(const Program& wide, const int64_t* extents);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_LAUNCH_STATE_H_
