// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/long_rows.h"

#include <algorithm>
#include <set>

#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

// As AcceptsRows, but of one row too.
Decision AcceptsLongRows(const Kernel& kernel) {
  if (kernel.num_iterated() != 1) return AcceptsRows(kernel);
  if (std::none_of(kernel.stages.begin(), kernel.stages.end(), IsReduction))
    return Decision::No("it has no reduction");
  if (!OutputsInOrder(kernel, /*rows=*/true))
    return Decision::No("an output is not dense over all elements, or one value");
  return StagesReadInPlace(kernel);
}

std::vector<Schedule> LongRowCandidates(const Kernel& kernel, const SizeClass& sizes,
                                        const Machine&) {
  const int64_t length =
      std::min<int64_t>(sizes.at_most[static_cast<size_t>(kernel.innermost())], INT32_MAX);
  std::vector<Schedule> candidates;
  LongRows rows;
  for (rows.blocks = 2; rows.blocks * kReduceBlock < length;) rows.blocks *= 2;
  if (rows.blocks <= kMostBlocksOfRow) candidates.emplace_back(kLongRows, rows);
  rows.blocks = 0;
  rows.levels = LevelsFor(length, kReduceBlock);
  candidates.emplace_back(kLongRows, rows);
  return candidates;
}

int64_t Reductions(const Kernel& kernel) {
  return std::count_if(kernel.stages.begin(), kernel.stages.end(), IsReduction);
}

// Groups of outputs: over all dims, and over rows.
int64_t Groups(const Kernel& kernel) {
  std::set<bool> groups;
  for (const KernelOutput& output : kernel.outputs) groups.insert(SpansAll(kernel, output.dims));
  return static_cast<int64_t>(groups.size());
}

}  // namespace

int64_t LongRows::Launches(const Kernel& kernel) const {
  return Groups(kernel) + (blocks > 0 ? 0 : Reductions(kernel) * levels);
}

int64_t LongRows::Passes(const Kernel& kernel) const {
  const bool all =
      std::any_of(kernel.outputs.begin(), kernel.outputs.end(),
                  [&](const KernelOutput& output) { return SpansAll(kernel, output.dims); });
  return Reductions(kernel) * (blocks > 0 ? Groups(kernel) : 1) + (all ? 1 : 0);
}

LoopSummary LongRows::Loops(const Kernel&) const {
  constexpr int64_t kThreads = kWarp / 2;  // of a block of the rule
  LoopSummary loops = {.nests = LoopSummary::Nests::kRows, .step = kReduceLanes};
  if (blocks == 0) {
    loops.grid = {.columns = kThreads,
                  .rows = kBlockThreads / kThreads,
                  .vector = kReduceLanes / kThreads,
                  .levels = levels};
  } else {
    loops.grid = {.columns = kThreads * blocks,
                  .vector = kReduceLanes / kThreads,
                  .parts = blocks,
                  .run = kReduceBlock};
  }
  return loops;
}

absl::Status LongRows::CheckFor(const Kernel&) const {
  if (blocks == 1 || (blocks & (blocks - 1)) != 0)  // of one, a warp would not be whole
    return absl::InvalidArgumentError("long_rows: blocks are a power of two from 2 on, or 0");
  if (blocks > 0 && levels > 1)
    return absl::InvalidArgumentError("long_rows: a row that is a block has one level");
  return absl::OkStatus();
}

const Template kLongRows = {"long_rows", "reductions over the innermost dim, rows of many warps",
                            AcceptsLongRows, LongRowCandidates, Make<LongRows>};

}  // namespace kiln
