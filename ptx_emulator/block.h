// SPDX-License-Identifier: Apache-2.0
// One block of threads while it runs: warps (warp.cc), shared memory and accesses (access.cc,
// shared_access.cc), shuffles, votes and atomics (exchange.cc). Private to the component.
//
// Invariant of a warp: each live lane either waits at a barrier, waits for the other members of a
// shuffle, or is ready; `pc` holds where it goes on, and for one that waits, the instruction at
// which.
#ifndef KILN_PTX_EMULATOR_BLOCK_H_
#define KILN_PTX_EMULATOR_BLOCK_H_

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "ptx_emulator/machine.h"

namespace kiln::ptx {

// Calls f(lane) for each lane of the mask.
template <typename F>
void ForLanes(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

struct Warp {
  int index = 0;  // in the block
  std::vector<uint64_t> registers;
  std::array<uint32_t, kLanes> pc = {};
  uint32_t live = 0, at_barrier = 0, waiting = 0;
  std::vector<uint8_t> local, local_written;  // lane after lane

  uint64_t* Row(int row) { return &registers[static_cast<size_t>(row) * kLanes]; }
};

// Lanes that run together.
struct Group {
  uint32_t lanes;
  uint32_t pc;
  uint32_t next;  // the lowest pc of the other lanes that are ready
};

// Bytes of global memory that consecutive lanes access, each its part.
struct Piece {
  Allocation& allocation;
  uint64_t offset, bytes;
  int first_lane, lanes;
};

class Block {
 public:
  Block(const Launch& launch, const MachineOptions& options, Memory& memory, Findings& findings,
        Counters& counters);

  // Runs block (x, y, z), number `index` of the grid.
  cuda::Result Run(uint32_t x, uint32_t y, uint32_t z, uint64_t index);

 private:
  // Who touched a granule of shared memory last: epoch * 2048 + thread.
  struct SharedShadow {
    uint64_t writer = 0, reader = 0;
  };

  // ---- block.cc
  void FillRows(Warp& warp) const;
  void Begin(uint32_t x, uint32_t y, uint32_t z, uint64_t index);
  void ReleaseBarrier();
  void Find(Check check, const Instruction& instruction);
  void Fault(Check check, const Instruction& instruction, cuda::Result result);

  // ---- warp.cc
  void RunWarp(Warp& warp);
  void RunGroup(Warp& warp, Group group);
  // Those below answer whether the group goes on at group.pc.
  bool Step(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group);
  bool Branch(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group);
  bool BranchByTable(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group);
  bool Exit(Warp& warp, uint32_t mask, Group& group);
  bool Barrier(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group);
  bool Meet(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group);
  void Compare(Warp& warp, const Instruction& instruction, uint32_t mask);
  static void Pack(Warp& warp, const Instruction& instruction, uint32_t mask);
  static void Unpack(Warp& warp, const Instruction& instruction, uint32_t mask);

  // ---- exchange.cc
  void Exchange(Warp& warp, const Instruction& instruction, uint32_t mask);
  void Shuffle(Warp& warp, const Instruction& instruction, uint32_t mask);
  static void Vote(Warp& warp, const Instruction& instruction, uint32_t mask);
  static void Reduce(Warp& warp, const Instruction& instruction, uint32_t mask);
  void Atomic(Warp& warp, const Instruction& instruction, uint32_t mask);
  uint8_t* AtomicTarget(const Instruction& instruction, uint64_t address);

  // ---- access.cc, shared_access.cc
  void Access(Warp& warp, const Instruction& instruction, uint32_t mask);
  void AccessSpace(Warp& warp, const Instruction& instruction, Space space, uint32_t mask,
                   const uint64_t* addresses);
  void AccessGlobal(Warp& warp, const Instruction& instruction, uint32_t mask,
                    const uint64_t* addresses);
  void Touch(const Piece& piece, bool load);
  void LoadPiece(Warp& warp, const Instruction& instruction, const Piece& piece);
  void StorePiece(Warp& warp, const Instruction& instruction, const Piece& piece);
  void NoteLoad(const Piece& piece, const Instruction& instruction);
  void NoteStore(const Piece& piece, int first_thread, const uint8_t* old,
                 const Instruction& instruction);
  void AccessShared(Warp& warp, const Instruction& instruction, uint32_t mask,
                    const uint64_t* addresses);
  void CheckSharedLoad(SharedShadow& shadow, uint64_t me, const Instruction& instruction);
  void CheckSharedStore(SharedShadow& shadow, uint64_t me, const Instruction& instruction);
  void CountWavefronts(const Instruction& instruction, uint32_t mask, const uint64_t* addresses);
  void AccessLocal(Warp& warp, const Instruction& instruction, uint32_t mask,
                   const uint64_t* addresses);
  void AccessParameters(Warp& warp, const Instruction& instruction, uint32_t mask,
                        const uint64_t* addresses);
  static void LoadLane(Warp& warp, const Instruction& instruction, int lane, const uint8_t* from);
  static void StoreLane(Warp& warp, const Instruction& instruction, int lane, uint8_t* to);

  const Launch& launch_;
  const Kernel& kernel_;
  const MachineOptions& options_;
  Memory& memory_;
  Findings& findings_;
  Counters& counters_;
  uint32_t threads_;
  uint64_t index_ = 0;
  std::vector<Warp> warps_;
  std::vector<uint8_t> shared_;
  std::vector<SharedShadow> shadow_;
  uint64_t epoch_ = 0, first_epoch_ = 0;  // barriers passed, over all blocks; and before this one
  cuda::Result result_ = cuda::kSuccess;
};

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_BLOCK_H_
