// SPDX-License-Identifier: Apache-2.0
// What the checks of the emulator found: each kind at each instruction once, with a count.
#ifndef KILN_PTX_EMULATOR_FINDINGS_H_
#define KILN_PTX_EMULATOR_FINDINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/string_view.h"
#include "ptx_emulator/module.h"

namespace kiln::ptx {

enum class Check : uint8_t {
  kOutOfBounds,
  kUseAfterFree,
  kMisaligned,
  kUnwrittenGlobal,
  kUnwrittenShared,
  kUnwrittenLocal,
  kSharedReadAfterWrite,
  kSharedWriteAfterRead,
  kSharedTwoWriters,
  kSharedRaceInWarp,
  kGlobalTwoWriters,
  kGlobalReadOfOtherBlock,
  kGlobalWriteAfterReadOfOtherBlock,
  kDivergentBarrier,
  kBarrierNotMetByAll,
  kBarriersMeet,
  kShuffleNotMember,
  kShuffleAbsentLane,
  kBarrierNumber,
  kWarpDeadlock,
  kBudget,
  kTrap,
  kBranchTable,
  kStreamRace,
};

// "read of global memory that nobody wrote"
absl::string_view DescribeCheck(Check check);

// Not thread-safe.
class Findings {
 public:
  void Add(Check check, const Kernel& kernel, const Instruction& instruction);
  // `where` is free text, for what is found outside of kernels.
  void Add(Check check, absl::string_view where);
  uint64_t count() const { return count_; }
  // A line for each: `misaligned access: kernel k, line 12: ld.global.v4... (3 times)`.
  std::string ToString() const;
  void Clear() { *this = Findings(); }

 private:
  std::map<std::tuple<Check, std::string, int>, std::pair<std::string, uint64_t>> found_;
  uint64_t count_ = 0;
};

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_FINDINGS_H_
