// SPDX-License-Identifier: Apache-2.0
// One launch of a Program: extents and addresses, worked out once and then only read by all
// workers.
//
// An element of an operand lies at `offset + sum of step[d] * coordinate[d]` elements from its
// start, as far as its position is linear in the coordinates; the other axes add their part element
// by element.
#ifndef KILN_EXEC_VM_LAUNCH_STATE_H_
#define KILN_EXEC_VM_LAUNCH_STATE_H_

#include <cstddef>
#include <cstdint>

#include "kiln/exec/vm/program.h"
#include "kiln/kernel/abi.h"

namespace kiln::vm {

struct Linear {
  int64_t offset = 0;
  int64_t step[kMaxDims] = {};
};

// An axis with its run-time facts; value = floor((offset + sum of step * coordinate) / div) mod
// `mod`, or a loaded position.
struct AxisState {
  Linear index;
  int64_t div = 1, mod = 0;
  int64_t extent = 0;
  int64_t stride = 0;  // elements
  int32_t load = 0;
};

struct ReadState {
  const uint8_t* base = nullptr;  // inputs
  size_t temp_offset = 0;         // temporaries: bytes into the cell's memory
  Linear linear;
  AxisState* axes = nullptr;  // guarded reads: every axis; else those that are not linear
  int32_t num_axes = 0;
  bool only_linear = true;  // all axes are linear (which a guarded read has in `axes`)
};

struct TempState {
  size_t offset = 0;  // bytes into the cell's memory
  int64_t elements = 0;
  Linear linear;
};

struct Launch {
  const Program* program = nullptr;
  LaunchContext* context = nullptr;
  int64_t* extents = nullptr;  // of every dim
  void** params = nullptr;
  BufferArg** outputs = nullptr;
  ReadState* reads = nullptr;
  TempState* temps = nullptr;
  Linear* stores = nullptr;  // one per output
  size_t temp_bytes = 0;     // of one cell
};

// Bytes that BindLaunch needs for the arrays of a launch.
size_t LaunchBytes(const Program& program);

// Fills `launch` for these arguments; its arrays lie in `memory`. False if a temporary would be
// larger than any memory.
bool BindLaunch(const Program& program, void** argv, void* memory, Launch& launch);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_LAUNCH_STATE_H_
