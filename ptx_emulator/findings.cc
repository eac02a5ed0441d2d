// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/findings.h"

#include "absl/strings/str_cat.h"

namespace kiln::ptx {
namespace {

constexpr size_t kMaxFindings = 10000;

}  // namespace

absl::string_view DescribeCheck(Check check) {
  switch (check) {
    case Check::kOutOfBounds:
      return "access out of bounds";
    case Check::kUseAfterFree:
      return "use after free";
    case Check::kMisaligned:
      return "misaligned access";
    case Check::kUnwrittenGlobal:
      return "read of global memory that nobody wrote";
    case Check::kUnwrittenShared:
      return "read of shared memory that nobody wrote";
    case Check::kUnwrittenLocal:
      return "read of local memory that nobody wrote";
    case Check::kSharedReadAfterWrite:
      return "shared memory race: read after write";
    case Check::kSharedWriteAfterRead:
      return "shared memory race: write after read";
    case Check::kSharedTwoWriters:
      return "shared memory race: two writers";
    case Check::kSharedRaceInWarp:
      return "shared memory race within a warp";
    case Check::kGlobalTwoWriters:
      return "two threads write different values to one byte of global memory";
    case Check::kGlobalReadOfOtherBlock:
      return "read of what another block wrote in this launch";
    case Check::kGlobalWriteAfterReadOfOtherBlock:
      return "write of what another block read in this launch";
    case Check::kDivergentBarrier:
      return "barrier in divergent code";
    case Check::kBarrierNotMetByAll:
      return "barrier not met by all threads";
    case Check::kBarriersMeet:
      return "barriers at different places meet";
    case Check::kShuffleNotMember:
      return "member mask without the lane itself";
    case Check::kShuffleAbsentLane:
      return "shuffle from an absent lane";
    case Check::kBarrierNumber:
      return "barrier whose number is not below 16";
    case Check::kWarpDeadlock:
      return "deadlock: lanes of the member mask, or of the barrier, never come";
    case Check::kBudget:
      return "more instructions than a launch may have";
    case Check::kTrap:
      return "trap";
    case Check::kBranchTable:
      return "branch index outside its table";
    case Check::kStreamRace:
      return "stream race";
  }
  return "";
}

void Findings::Add(Check check, const Kernel& kernel, const Instruction& instruction) {
  ++count_;
  const auto found = found_.find({check, kernel.name, instruction.line});
  if (found != found_.end()) {
    ++found->second.second;
  } else if (found_.size() < kMaxFindings) {
    const std::string where = absl::StrCat("kernel ", kernel.name, ", line ", instruction.line,
                                           ": ", kernel.TextOf(instruction));
    found_[{check, kernel.name, instruction.line}] = {where, 1};
  }
}

void Findings::Add(Check check, absl::string_view where) {
  ++count_;
  if (found_.size() >= kMaxFindings) return;
  auto& entry = found_[{check, std::string(where), 0}];
  entry.first = std::string(where);
  ++entry.second;
}

std::string Findings::ToString() const {
  std::string text;
  for (const auto& [key, entry] : found_) {
    absl::StrAppend(&text, DescribeCheck(std::get<Check>(key)), ": ", entry.first, " (",
                    entry.second, entry.second == 1 ? " time)\n" : " times)\n");
  }
  return text;
}

}  // namespace kiln::ptx
