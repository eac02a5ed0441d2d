// SPDX-License-Identifier: Apache-2.0
// Shared memory: races between barriers, and bank conflicts.
#include <algorithm>

#include "ptx_emulator/block.h"

namespace kiln::ptx {
namespace {

constexpr uint64_t kThreads = 2048;  // an epoch has so many stamps
constexpr uint64_t kSeveral = 1024;  // the stamp of more than one thread
constexpr int kBanks = 32;           // of 4 bytes each

bool InOneWarp(uint64_t a, uint64_t b) {
  return a % kThreads / kLanes == b % kThreads / kLanes && a % kThreads != kSeveral;
}

}  // namespace

void Block::AccessShared(Warp& warp, const Instruction& instruction, uint32_t mask,
                         const uint64_t* addresses) {
  const bool load = instruction.kind == Kind::kLoad;
  const auto total = static_cast<uint64_t>(instruction.bytes * instruction.count);
  const auto granule = static_cast<uint64_t>(kernel_.shared_granule);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = addresses[lane];
    if (offset > shared_.size() || total > shared_.size() - offset) {
      return Fault(Check::kOutOfBounds, instruction, cuda::kIllegalAddress);
    }
    if (offset % total != 0) {
      return Fault(Check::kMisaligned, instruction, cuda::kMisalignedAddress);
    }
    const auto thread = static_cast<uint64_t>(warp.index * kLanes + lane);
    for (uint64_t i = 0; options_.checks && i < total / granule; ++i) {
      SharedShadow& shadow = shadow_[offset / granule + i];
      if (load) {
        CheckSharedLoad(shadow, epoch_ * kThreads + thread, instruction);
      } else {
        CheckSharedStore(shadow, epoch_ * kThreads + thread, instruction);
      }
    }
    if (load) {
      LoadLane(warp, instruction, lane, &shared_[offset]);
    } else {
      StoreLane(warp, instruction, lane, &shared_[offset]);
    }
  }
  CountWavefronts(instruction, mask, addresses);
}

void Block::CheckSharedLoad(SharedShadow& shadow, uint64_t me, const Instruction& instruction) {
  if (shadow.writer < first_epoch_ * kThreads) {
    Find(Check::kUnwrittenShared, instruction);
  } else if (shadow.writer / kThreads == epoch_ && shadow.writer != me) {
    Find(InOneWarp(shadow.writer, me) ? Check::kSharedRaceInWarp : Check::kSharedReadAfterWrite,
         instruction);
  }
  if (shadow.reader / kThreads != epoch_) {
    shadow.reader = me;
  } else if (shadow.reader != me) {
    shadow.reader = epoch_ * kThreads + kSeveral;
  }
}

void Block::CheckSharedStore(SharedShadow& shadow, uint64_t me, const Instruction& instruction) {
  if (shadow.writer / kThreads == epoch_ && shadow.writer != me) {
    Find(InOneWarp(shadow.writer, me) ? Check::kSharedRaceInWarp : Check::kSharedTwoWriters,
         instruction);
  } else if (shadow.reader / kThreads == epoch_ && shadow.reader != me) {
    Find(InOneWarp(shadow.reader, me) ? Check::kSharedRaceInWarp : Check::kSharedWriteAfterRead,
         instruction);
  }
  shadow.writer = me;
}

// A request of 8 bytes a lane goes by half warps, one of 16 by quarters. Each part takes as many
// wavefronts as its busiest bank has different words.
void Block::CountWavefronts(const Instruction& instruction, uint32_t mask,
                            const uint64_t* addresses) {
  const int total = instruction.bytes * instruction.count;
  const int words = std::max(total / 4, 1);
  const int part = kLanes / words;
  ++counters_.shared_requests;
  for (int from = 0; from < kLanes; from += part) {
    uint64_t bank[kBanks][kLanes];
    int used[kBanks] = {};
    int busiest = 0;
    for (int lane = from; lane < from + part; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      for (int i = 0; i < words; ++i) {
        const uint64_t word = addresses[lane] / 4 + static_cast<uint64_t>(i);
        uint64_t* const seen = bank[word % kBanks];
        int& count = used[word % kBanks];
        if (std::find(seen, seen + count, word) != seen + count) continue;
        seen[count++] = word;
        busiest = std::max(busiest, count);
      }
    }
    counters_.shared_wavefronts += static_cast<uint64_t>(busiest);
    counters_.ideal_wavefronts += busiest > 0 ? 1 : 0;
  }
}

}  // namespace kiln::ptx
