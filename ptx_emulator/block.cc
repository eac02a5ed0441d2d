// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/block.h"

#include <algorithm>
#include <cfenv>
namespace kiln::ptx {
namespace {

// The default floating-point environment while it lives.
class DefaultRounding {
 public:
  DefaultRounding() {
    std::feholdexcept(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultRounding() { std::fesetenv(&saved_); }
  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

 private:
  std::fenv_t saved_;
};

uint64_t Volume(const uint32_t (&extents)[3]) {
  return uint64_t{extents[0]} * extents[1] * extents[2];
}

}  // namespace

void AddCounters(Counters& to, const Counters& more) {
  static_assert(sizeof(Counters) % sizeof(uint64_t) == 0);
  auto* sums = reinterpret_cast<uint64_t*>(&to);
  const auto* values = reinterpret_cast<const uint64_t*>(&more);
  for (size_t i = 0; i < sizeof(Counters) / sizeof(uint64_t); ++i) sums[i] += values[i];
}

cuda::Result CheckLimits(const Launch& launch) {
  const auto& grid = launch.grid;
  const auto& block = launch.block;
  if (Volume(grid) == 0 || Volume(block) == 0) return cuda::kInvalidValue;
  if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || Volume(block) > 1024) {
    return cuda::kInvalidValue;
  }
  if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535) return cuda::kInvalidValue;
  const uint32_t* required = launch.kernel->required_block;
  if (required[0] != 0 && !std::equal(block, block + 3, required)) return cuda::kInvalidValue;
  if (Volume(block) > launch.kernel->max_threads) return cuda::kLaunchOutOfResources;
  return cuda::kSuccess;
}

cuda::Result RunLaunch(const Launch& launch, const MachineOptions& options, Memory& memory,
                       Findings& findings, Counters& counters) {
  if (const cuda::Result limits = CheckLimits(launch); limits != cuda::kSuccess) return limits;
  const DefaultRounding rounding;
  ++counters.launches;
  memory.BeginLaunch(Volume(launch.grid), Volume(launch.block));
  Block block(launch, options, memory, findings, counters);
  uint64_t index = 0;
  for (uint32_t z = 0; z < launch.grid[2]; ++z) {
    for (uint32_t y = 0; y < launch.grid[1]; ++y) {
      for (uint32_t x = 0; x < launch.grid[0]; ++x, ++index) {
        const cuda::Result result = block.Run(x, y, z, index);
        if (result != cuda::kSuccess) return result;
      }
    }
  }
  return cuda::kSuccess;
}

Block::Block(const Launch& launch, const MachineOptions& options, Memory& memory,
             Findings& findings, Counters& counters)
    : launch_(launch),
      kernel_(*launch.kernel),
      options_(options),
      memory_(memory),
      findings_(findings),
      counters_(counters),
      threads_(static_cast<uint32_t>(Volume(launch.block))),
      warps_((threads_ + kLanes - 1) / kLanes) {
  const uint32_t start = (kernel_.shared_bytes + 15) / 16 * 16;  // of dynamic shared memory
  shared_.resize(launch.shared_bytes == 0 ? kernel_.shared_bytes : start + launch.shared_bytes);
  shadow_.resize(shared_.size() / static_cast<size_t>(kernel_.shared_granule) + 1);
  for (Warp& warp : warps_) {
    warp.index = static_cast<int>(&warp - warps_.data());
    FillRows(warp);
  }
}

// Rows that are the same in all blocks.
void Block::FillRows(Warp& warp) const {
  warp.registers.assign(static_cast<size_t>(kernel_.rows) * kLanes, 0);
  const auto fill = [&](int row, uint64_t value) { std::fill_n(warp.Row(row), kLanes, value); };
  for (const Constant& constant : kernel_.constants) {
    const uint64_t base =
        constant.variable < 0 ? 0 : (*launch_.variables)[static_cast<size_t>(constant.variable)];
    fill(constant.row, constant.value + base);
  }
  for (int i = 0; i < 3; ++i) {
    fill(kNtidX + i, launch_.block[i]);
    fill(kNctaidX + i, launch_.grid[i]);
  }
  fill(kWarpId, static_cast<uint64_t>(warp.index));
  fill(kNwarpId, warps_.size());
  fill(kDynamicSharedSize, launch_.shared_bytes);
  fill(kTotalSharedSize, shared_.size());
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t thread = static_cast<uint32_t>(warp.index) * kLanes + lane;
    warp.Row(kTidX)[lane] = thread % launch_.block[0];
    warp.Row(kTidY)[lane] = thread / launch_.block[0] % launch_.block[1];
    warp.Row(kTidZ)[lane] = thread / launch_.block[0] / launch_.block[1];
    const uint32_t self = 1u << lane;
    warp.Row(kLaneId)[lane] = lane;
    warp.Row(kMaskEq)[lane] = self;
    warp.Row(kMaskLt)[lane] = self - 1;
    warp.Row(kMaskLe)[lane] = self | (self - 1);
    warp.Row(kMaskGe)[lane] = ~(self - 1);
    warp.Row(kMaskGt)[lane] = ~(self | (self - 1));
  }
  warp.local.resize(size_t{kernel_.local_bytes} * kLanes);
  warp.local_written.resize(warp.local.size());
}

void Block::Begin(uint32_t x, uint32_t y, uint32_t z, uint64_t index) {
  index_ = index;
  first_epoch_ = ++epoch_;
  std::fill(shared_.begin(), shared_.end(), 0xcd);
  for (Warp& warp : warps_) {
    std::fill_n(warp.Row(kCtaidX), kLanes, x);
    std::fill_n(warp.Row(kCtaidY), kLanes, y);
    std::fill_n(warp.Row(kCtaidZ), kLanes, z);
    const uint32_t left = threads_ - static_cast<uint32_t>(warp.index) * kLanes;
    warp.live = left >= kLanes ? kAllLanes : (1u << left) - 1;
    warp.at_barrier = warp.waiting = 0;
    warp.pc.fill(0);
    std::fill(warp.local_written.begin(), warp.local_written.end(), 0);
  }
}

cuda::Result Block::Run(uint32_t x, uint32_t y, uint32_t z, uint64_t index) {
  Begin(x, y, z, index);
  while (true) {
    bool live = false;
    for (Warp& warp : warps_) {
      RunWarp(warp);
      if (result_ != cuda::kSuccess) return result_;
      live |= warp.live != 0;
    }
    if (!live) return cuda::kSuccess;
    ReleaseBarrier();
    if (result_ != cuda::kSuccess) return result_;
  }
}

// Every live lane stands at a barrier.
void Block::ReleaseBarrier() {
  const Instruction* first = nullptr;
  uint64_t number = 0, arrived = 0;
  for (Warp& warp : warps_) {
    ForLanes(warp.at_barrier, [&](int lane) {
      const Instruction& barrier = kernel_.code[warp.pc[lane]];
      const uint64_t named = warp.Row(barrier.source[0])[lane];
      if (first == nullptr) {
        first = &barrier;
        number = named;
      } else if (named != number) {
        Fault(Check::kWarpDeadlock, barrier, cuda::kLaunchTimeout);
      } else if (&barrier != first) {
        Find(Check::kBarriersMeet, barrier);
      }
      ++arrived;
      ++warp.pc[lane];
    });
    warp.at_barrier = 0;
  }
  if (first != nullptr && arrived != threads_) Find(Check::kBarrierNotMetByAll, *first);
  ++epoch_;
  ++counters_.barriers;
}

void Block::Find(Check check, const Instruction& instruction) {
  findings_.Add(check, kernel_, instruction);
}

void Block::Fault(Check check, const Instruction& instruction, cuda::Result result) {
  if (result_ == cuda::kSuccess) {
    findings_.Add(check, kernel_, instruction);
    result_ = result;
  }
}

}  // namespace kiln::ptx
