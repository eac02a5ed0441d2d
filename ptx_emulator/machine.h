// SPDX-License-Identifier: Apache-2.0
// Runs a kernel over a grid, block after block and warp after warp, in the calling thread.
//
// Scheduling: of a warp's lanes, those that share the lowest pc run together until they branch,
// wait or come to the pc of others. That reconverges the code of LLVM, whose joins lie after what
// joins there, without an analysis of control flow. A warp runs to its next barrier or its end,
// then the next one does; races are found by epochs between barriers, not by the order that happens
// to be.
//
//   Launch launch{&kernel, {blocks, 1, 1}, {128, 1, 1}, shared_bytes, parameters, &addresses};
//   RunLaunch(launch, {}, memory, findings, counters);   // kIllegalAddress: findings say where
//
// Results are those of the PTX ISA bit for bit, whatever rounding mode and flush-to-zero the caller
// has set. Every launch ends: after options.warp_instructions at the latest.
#ifndef KILN_PTX_EMULATOR_MACHINE_H_
#define KILN_PTX_EMULATOR_MACHINE_H_

#include <cstdint>
#include <vector>

#include "exec/cuda/driver_api.h"
#include "ptx_emulator/control.h"
#include "ptx_emulator/findings.h"
#include "ptx_emulator/memory.h"
#include "ptx_emulator/module.h"

namespace kiln::ptx {

using Counters = kiln_ptx_counters;

void AddCounters(Counters& to, const Counters& more);

struct Launch {
  const Kernel* kernel;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;                   // dynamic ones
  const uint8_t* parameters;               // kernel->parameter_bytes, as the kernel lays them out
  const std::vector<uint64_t>* variables;  // addresses of the module's variables
};

struct MachineOptions {
  bool checks = true;
  uint64_t warp_instructions = 4'000'000'000;
};

// kSuccess, or kInvalidValue where the launch exceeds what every CUDA device allows: 1024 threads,
// block.z 64, grid.x 2^31 - 1, grid.y and z 65535.
cuda::Result CheckLimits(const Launch& launch);

// What goes on in `memory` stays after an error, as on a GPU. Not thread-safe.
cuda::Result RunLaunch(const Launch& launch, const MachineOptions& options, Memory& memory,
                       Findings& findings, Counters& counters);

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_MACHINE_H_
