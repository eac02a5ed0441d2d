// SPDX-License-Identifier: Apache-2.0
// What lanes do together: shuffles, votes, reductions; and atomics, lane after lane.
#include <algorithm>
#include <cstring>

#include "ptx_emulator/block.h"

namespace kiln::ptx {
namespace {

template <typename T>
T Updated(AtomicOp op, T old, T value) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case AtomicOp::kAdd:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
    case AtomicOp::kMin:
      return std::min(old, value);
    case AtomicOp::kMax:
      return std::max(old, value);
    case AtomicOp::kAnd:
      return old & value;
    case AtomicOp::kOr:
      return old | value;
    case AtomicOp::kXor:
      return old ^ value;
    case AtomicOp::kInc:
      return static_cast<U>(old) >= static_cast<U>(value) ? T{0} : static_cast<T>(old + 1);
    case AtomicOp::kDec:
      return old == 0 || static_cast<U>(old) > static_cast<U>(value) ? value
                                                                     : static_cast<T>(old - 1);
    case AtomicOp::kExchange:
    case AtomicOp::kCompareSwap:
      break;
  }
  return value;
}

uint64_t UpdatedBits(const Instruction& instruction, uint64_t old, uint64_t value) {
  const auto op = static_cast<AtomicOp>(instruction.mode);
  if (instruction.bytes == 8) {
    return instruction.is_signed ? static_cast<uint64_t>(Updated<int64_t>(
                                       op, static_cast<int64_t>(old), static_cast<int64_t>(value)))
                                 : Updated<uint64_t>(op, old, value);
  }
  return instruction.is_signed
             ? static_cast<uint32_t>(
                   Updated<int32_t>(op, static_cast<int32_t>(old), static_cast<int32_t>(value)))
             : Updated<uint32_t>(op, static_cast<uint32_t>(old), static_cast<uint32_t>(value));
}

struct ShuffleSource {
  int lane;
  bool inside;  // of the segment
};

// The rule of the PTX ISA, shfl.sync. b: the distance or index; c: the last lane, and in bits 8 to
// 12 those bits of a lane's number that tell its segment.
ShuffleSource SourceOf(ShuffleMode mode, int lane, uint32_t b, uint32_t c) {
  const int by = static_cast<int>(b & 31), clamp = static_cast<int>(c & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int first = lane & segment, last = first | (clamp & ~segment);
  switch (mode) {
    case ShuffleMode::kUp:
      return {lane - by, lane - by >= last};
    case ShuffleMode::kDown:
      return {lane + by, lane + by <= last};
    case ShuffleMode::kButterfly:
      return {lane ^ by, (lane ^ by) <= last};
    case ShuffleMode::kIndex:
      break;
  }
  const int index = first | (by & ~segment);
  return {index, index <= last};
}

}  // namespace

void Block::Exchange(Warp& warp, const Instruction& instruction, uint32_t mask) {
  const uint64_t* members = warp.Row(instruction.source[3]);
  bool all_members = true;
  ForLanes(mask, [&](int lane) { all_members &= (members[lane] >> lane & 1) != 0; });
  if (!all_members) Find(Check::kShuffleNotMember, instruction);
  if (instruction.kind == Kind::kShuffle) Shuffle(warp, instruction, mask);
  if (instruction.kind == Kind::kVote) Vote(warp, instruction, mask);
  if (instruction.kind == Kind::kReduce) Reduce(warp, instruction, mask);
}

void Block::Shuffle(Warp& warp, const Instruction& instruction, uint32_t mask) {
  ++counters_.shuffles;
  const uint64_t* const values = warp.Row(instruction.source[0]);
  const uint64_t* const by = warp.Row(instruction.source[1]);
  const uint64_t* const clamp = warp.Row(instruction.source[2]);
  const uint64_t* const members = warp.Row(instruction.source[3]);
  uint64_t out[kLanes];
  bool absent = false;
  uint32_t inside = 0;
  ForLanes(mask, [&](int lane) {
    ShuffleSource source =
        SourceOf(static_cast<ShuffleMode>(instruction.mode), lane, static_cast<uint32_t>(by[lane]),
                 static_cast<uint32_t>(clamp[lane]));
    if (!source.inside) source.lane = lane;
    // Only down and up leave 0 to 31, and these are outside of every segment.
    source.lane &= kLanes - 1;
    absent |= (mask >> source.lane & 1) == 0 || (members[lane] >> source.lane & 1) == 0;
    inside |= static_cast<uint32_t>(source.inside) << lane;
    out[lane] = values[source.lane];
  });
  if (absent) Find(Check::kShuffleAbsentLane, instruction);
  ForLanes(mask, [&](int lane) {
    if (instruction.data[0] != kNoRow) warp.Row(instruction.data[0])[lane] = out[lane];
    if (instruction.data[1] != kNoRow) warp.Row(instruction.data[1])[lane] = inside >> lane & 1;
  });
}

void Block::Vote(Warp& warp, const Instruction& instruction, uint32_t mask) {
  const uint64_t* const predicate = warp.Row(instruction.source[0]);
  const uint64_t* const members = warp.Row(instruction.source[3]);
  uint32_t held = 0;
  ForLanes(mask, [&](int lane) {
    const bool value = ((predicate[lane] & 1) != 0) != instruction.source_negated;
    held |= static_cast<uint32_t>(value) << lane;
  });
  uint64_t out[kLanes];
  ForLanes(mask, [&](int lane) {
    const uint32_t asked = static_cast<uint32_t>(members[lane]) & mask;
    const bool all = (asked & ~held) == 0, none = (asked & held) == 0;
    switch (static_cast<VoteMode>(instruction.mode)) {
      case VoteMode::kAll:
        out[lane] = all;
        break;
      case VoteMode::kAny:
        out[lane] = !none;
        break;
      case VoteMode::kUniform:
        out[lane] = all || none;
        break;
      case VoteMode::kBallot:
        out[lane] = asked & held;
        break;
    }
  });
  ForLanes(mask, [&](int lane) { warp.Row(instruction.data[0])[lane] = out[lane]; });
}

void Block::Reduce(Warp& warp, const Instruction& instruction, uint32_t mask) {
  const uint64_t* const values = warp.Row(instruction.source[0]);
  const uint64_t* const members = warp.Row(instruction.source[3]);
  uint64_t out[kLanes];
  ForLanes(mask, [&](int lane) {
    const uint32_t asked = (static_cast<uint32_t>(members[lane]) & mask) | 1u << lane;
    uint64_t sum = values[std::countr_zero(asked)];
    ForLanes(asked & (asked - 1),
             [&](int other) { sum = UpdatedBits(instruction, sum, values[other]); });
    out[lane] = sum;
  });
  ForLanes(mask, [&](int lane) { warp.Row(instruction.data[0])[lane] = out[lane]; });
}

// Where an atomic operation works, or null after a fault.
uint8_t* Block::AtomicTarget(const Instruction& instruction, uint64_t address) {
  const uint64_t total = instruction.bytes;
  bool shared = instruction.space == Space::kShared;
  if (instruction.space == Space::kGeneric && address - kSharedWindow < kWindowBytes) {
    shared = true;
    address -= kSharedWindow;
  }
  Allocation* allocation = shared ? nullptr : memory_.Find(address, total);
  const bool inside = shared ? address <= shared_.size() && total <= shared_.size() - address
                             : allocation != nullptr;
  if (!inside) {
    const bool freed = !shared && memory_.WasFreed(address);
    Fault(freed ? Check::kUseAfterFree : Check::kOutOfBounds, instruction, cuda::kIllegalAddress);
    return nullptr;
  }
  if (address % total != 0) {
    Fault(Check::kMisaligned, instruction, cuda::kMisalignedAddress);
    return nullptr;
  }
  if (shared) return &shared_[address];
  const uint64_t offset = address - allocation->base;
  if (options_.checks && !allocation->AllWritten(offset, total)) {
    Find(Check::kUnwrittenGlobal, instruction);
  }
  Touch({*allocation, offset, total, 0, 1}, false);
  return allocation->bytes.get() + offset;
}

void Block::Atomic(Warp& warp, const Instruction& instruction, uint32_t mask) {
  const uint64_t* const base = warp.Row(instruction.source[0]);
  const auto op = static_cast<AtomicOp>(instruction.mode);
  const uint64_t bits = instruction.narrow_address ? 0xffffffff : ~uint64_t{0};
  if (mask != 0) ++counters_.atomics;
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    const uint64_t address = (base[lane] & bits) + static_cast<uint64_t>(instruction.offset);
    uint8_t* const target = AtomicTarget(instruction, address);
    if (target == nullptr) return;
    uint64_t old = 0;
    std::memcpy(&old, target, instruction.bytes);
    const uint64_t first = warp.Row(instruction.source[1])[lane];
    uint64_t value = UpdatedBits(instruction, old, first);
    if (op == AtomicOp::kCompareSwap) {
      const uint64_t ones = instruction.bytes == 8 ? ~uint64_t{0} : 0xffffffff;
      const bool equal = (old & ones) == (first & ones);
      value = equal ? warp.Row(instruction.source[2])[lane] : old;
    }
    std::memcpy(target, &value, instruction.bytes);
    if (instruction.data[0] != kNoRow) warp.Row(instruction.data[0])[lane] = old;
  }
}

}  // namespace kiln::ptx
