// SPDX-License-Identifier: Apache-2.0
// The loop over instructions, and control flow within a warp.
#include <algorithm>

#include "ptx_emulator/block.h"

namespace kiln::ptx {
namespace {

constexpr uint32_t kNowhere = ~0u;

uint32_t LanesThatHold(const uint64_t* predicate, bool negated) {
  uint32_t mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    mask |= static_cast<uint32_t>(predicate[lane] & 1) << lane;
  }
  return negated ? ~mask : mask;
}

void SetPc(Warp& warp, uint32_t lanes, uint32_t pc) {
  ForLanes(lanes, [&](int lane) { warp.pc[lane] = pc; });
}

// The lanes with the lowest pc, and the next one.
Group LowestPc(const Warp& warp, uint32_t ready) {
  Group group = {0, kNowhere, kNowhere};
  ForLanes(ready, [&](int lane) {
    const uint32_t pc = warp.pc[lane];
    if (pc < group.pc) {
      group.next = group.pc;
      group.pc = pc;
      group.lanes = 0;
    }
    if (pc == group.pc) {
      group.lanes |= 1u << lane;
    } else {
      group.next = std::min(group.next, pc);
    }
  });
  return group;
}

bool Combine(Logic logic, bool a, bool b) {
  switch (logic) {
    case Logic::kAnd:
      return a && b;
    case Logic::kOr:
      return a || b;
    case Logic::kXor:
      return a != b;
    case Logic::kNone:
      break;
  }
  return a;
}

}  // namespace

void Block::RunWarp(Warp& warp) {
  while (result_ == cuda::kSuccess) {
    const uint32_t ready = warp.live & ~warp.at_barrier & ~warp.waiting;
    if (ready == 0) {
      if (warp.waiting != 0) {
        const int lane = std::countr_zero(warp.waiting);
        Fault(Check::kWarpDeadlock, kernel_.code[warp.pc[lane]], cuda::kLaunchTimeout);
      }
      return;
    }
    RunGroup(warp, LowestPc(warp, ready));
  }
}

void Block::RunGroup(Warp& warp, Group group) {
  const Instruction* const code = kernel_.code.data();
  uint64_t* const registers = warp.registers.data();
  const auto row = [registers](int index) {
    return registers + static_cast<size_t>(index) * kLanes;
  };
  while (group.pc != group.next) {
    const Instruction& instruction = code[group.pc];
    uint32_t mask = group.lanes;
    if (++counters_.warp_instructions > options_.warp_instructions) {
      return Fault(Check::kBudget, instruction, cuda::kLaunchTimeout);
    }
    counters_.thread_instructions += static_cast<uint64_t>(std::popcount(mask));
    if (instruction.guard != kNoRow) {
      mask &= LanesThatHold(row(instruction.guard), instruction.guard_negated);
    }
    if (instruction.kind == Kind::kAlu) {
      if (mask != 0) {
        instruction.function(row(instruction.destination), row(instruction.source[0]),
                             row(instruction.source[1]), row(instruction.source[2]),
                             row(instruction.source[3]), mask);
      }
      ++group.pc;
    } else if (!Step(warp, instruction, mask, group)) {
      return;
    }
  }
  SetPc(warp, group.lanes, group.pc);
}

bool Block::Step(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group) {
  switch (instruction.kind) {
    case Kind::kBranch:
      return Branch(warp, instruction, mask, group);
    case Kind::kBranchTable:
      return BranchByTable(warp, instruction, mask, group);
    case Kind::kExit:
      return Exit(warp, mask, group);
    case Kind::kBarrier:
      return Barrier(warp, instruction, mask, group);
    case Kind::kShuffle:
    case Kind::kVote:
    case Kind::kReduce:
    case Kind::kSyncWarp:
      return Meet(warp, instruction, mask, group);
    case Kind::kTrap:
      if (mask == 0) break;
      Fault(Check::kTrap, instruction, cuda::kLaunchFailed);
      return false;
    case Kind::kLoad:
    case Kind::kStore:
      Access(warp, instruction, mask);
      break;
    case Kind::kAtomic:
      Atomic(warp, instruction, mask);
      break;
    case Kind::kCompare:
      Compare(warp, instruction, mask);
      break;
    case Kind::kPack:
      Pack(warp, instruction, mask);
      break;
    case Kind::kUnpack:
      Unpack(warp, instruction, mask);
      break;
    case Kind::kActiveMask:
      ForLanes(mask, [&](int lane) { warp.Row(instruction.data[0])[lane] = mask; });
      break;
    case Kind::kAlu:
    case Kind::kNothing:
      break;
  }
  ++group.pc;
  return result_ == cuda::kSuccess;
}

bool Block::Branch(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group) {
  const auto target = static_cast<uint32_t>(instruction.target);
  if (mask == group.lanes || mask == 0) {
    group.pc = mask == 0 ? group.pc + 1 : target;
    if (group.pc <= group.next) return true;
    SetPc(warp, group.lanes, group.pc);
    return false;
  }
  ++counters_.divergent_branches;
  SetPc(warp, mask, target);
  SetPc(warp, group.lanes & ~mask, group.pc + 1);
  return false;
}

bool Block::BranchByTable(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group) {
  const std::vector<int>& table = kernel_.branch_tables[static_cast<size_t>(instruction.target)];
  const uint64_t* index = warp.Row(instruction.source[0]);
  SetPc(warp, group.lanes & ~mask, group.pc + 1);
  ForLanes(mask, [&](int lane) {
    const auto at = static_cast<uint32_t>(index[lane]);
    if (at >= table.size()) return Fault(Check::kBranchTable, instruction, cuda::kInvalidPc);
    warp.pc[lane] = static_cast<uint32_t>(table[at]);
  });
  return false;
}

bool Block::Exit(Warp& warp, uint32_t mask, Group& group) {
  warp.live &= ~mask;
  if (mask != 0) warp.waiting = 0;  // who waits looks again whether all that live are there
  SetPc(warp, group.lanes & ~mask, group.pc + 1);
  return false;
}

bool Block::Barrier(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group) {
  if (mask == 0) {
    ++group.pc;
    return true;
  }
  bool numbered = true;
  ForLanes(mask, [&](int lane) {
    const auto number = static_cast<uint32_t>(warp.Row(instruction.source[0])[lane]);
    numbered &= number < kBarriers;
  });
  if (!numbered) {
    Fault(Check::kBarrierNumber, instruction, cuda::kIllegalInstruction);
    return false;
  }
  if (instruction.aligned && mask != warp.live) Find(Check::kDivergentBarrier, instruction);
  SetPc(warp, mask, group.pc);
  SetPc(warp, group.lanes & ~mask, group.pc + 1);
  warp.at_barrier |= mask;
  return false;
}

// Lanes wait at the instruction until all live members of their masks are there.
bool Block::Meet(Warp& warp, const Instruction& instruction, uint32_t mask, Group& group) {
  if (mask == 0) {
    ++group.pc;
    return true;
  }
  const uint64_t* members = warp.Row(instruction.source[3]);
  uint32_t here = mask;
  ForLanes(warp.waiting, [&](int lane) {
    if (warp.pc[lane] == group.pc) here |= 1u << lane;
  });
  uint32_t wanted = 0;
  ForLanes(here, [&](int lane) { wanted |= static_cast<uint32_t>(members[lane]); });
  SetPc(warp, group.lanes & ~mask, group.pc + 1);
  if ((wanted & warp.live & ~here) != 0) {
    SetPc(warp, mask, group.pc);
    warp.waiting |= mask;
    return false;
  }
  Exchange(warp, instruction, here);
  warp.waiting &= ~here;
  if (here == group.lanes && result_ == cuda::kSuccess) {
    ++group.pc;
    return true;
  }
  SetPc(warp, here, group.pc + 1);
  return false;
}

void Block::Compare(Warp& warp, const Instruction& instruction, uint32_t mask) {
  uint64_t held[kLanes] = {};
  if (mask == 0) return;
  instruction.function(held, warp.Row(instruction.source[0]), warp.Row(instruction.source[1]),
                       warp.Row(0), warp.Row(0), mask);
  const uint64_t* other = warp.Row(instruction.source[2]);
  ForLanes(mask, [&](int lane) {
    const bool first = (held[lane] & 1) != 0;
    const bool second = instruction.packed ? (held[lane] & 2) != 0 : !first;
    const bool with = (other[lane] & 1) != static_cast<uint64_t>(instruction.source_negated);
    const bool results[2] = {Combine(instruction.logic, first, with),
                             Combine(instruction.logic, second, with)};
    for (int i = 0; i < 2; ++i) {
      if (instruction.data[i] == kNoRow) continue;
      warp.Row(instruction.data[i])[lane] = results[i] ? instruction.true_value : 0;
    }
  });
}

void Block::Pack(Warp& warp, const Instruction& instruction, uint32_t mask) {
  const int bits = 8 * instruction.bytes;
  const uint64_t ones = (uint64_t{1} << bits) - 1;
  ForLanes(mask, [&](int lane) {
    uint64_t value = 0;
    for (int i = 0; i < instruction.count; ++i) {
      value |= (warp.Row(instruction.source[i])[lane] & ones) << (i * bits);
    }
    warp.Row(instruction.data[0])[lane] = value;
  });
}

void Block::Unpack(Warp& warp, const Instruction& instruction, uint32_t mask) {
  const int bits = 8 * instruction.bytes;
  const uint64_t ones = (uint64_t{1} << bits) - 1;
  ForLanes(mask, [&](int lane) {
    const uint64_t value = warp.Row(instruction.source[0])[lane];  // before a part overwrites it
    for (int i = 0; i < instruction.count; ++i) {
      if (instruction.data[i] == kNoRow) continue;
      warp.Row(instruction.data[i])[lane] = value >> (i * bits) & ones;
    }
  });
}

}  // namespace kiln::ptx
