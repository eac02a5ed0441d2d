// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/columns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"
#include "schedule/cuda/device_stages.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

constexpr int64_t kMostVector = 4;  // speed: registers, one for each column of a thread

// Threads of a block along columns, and along each of them.
constexpr std::pair<int64_t, int64_t> kBlocks[] = {{32, 8}, {8, 32}, {128, 1}};  // speed

Decision AcceptsKernel(const Kernel& kernel) {
  if (const Decision columns = AcceptsColumns(kernel); !columns) return columns;
  const std::vector<int32_t>& over = FirstReduction(kernel).over;
  if (over.size() > 1) return Decision::No("it reduces several dims");
  if (over[0] == kernel.innermost()) return Decision::No("it reduces the innermost dim");
  return Decision::Yes();
}

// Of short columns all in one launch, or with one for each level, which have more blocks where
// there are few columns.
std::vector<Schedule> CandidatesFor(const Kernel& kernel, const SizeClass& sizes, const Machine&) {
  const int64_t length = ColumnElements(FirstReduction(kernel), sizes);
  const int64_t least = LevelsFor(length, kOuterStep);
  std::vector<Schedule> candidates;
  for (int64_t levels = least; levels <= std::max<int64_t>(2, least); ++levels) {
    for (const auto& [threads, rows] : kBlocks) {
      Columns columns;
      columns.vector = std::min(kMostVector, WidestVector(kernel));
      columns.columns = threads;
      columns.levels = levels;
      for (columns.runs = 1; levels == 1 && columns.runs * kOuterReduceBlock < length;)
        columns.runs *= 2;
      if (levels > 1) columns.runs = kOuterReduceBlock;
      columns.rows = std::min(rows, columns.runs);
      Schedule schedule(kColumns, columns);
      if (columns.CheckFor(kernel).ok() &&
          std::count(candidates.begin(), candidates.end(), schedule) == 0)
        candidates.push_back(std::move(schedule));
    }
  }
  return candidates;
}

}  // namespace

int64_t Columns::Passes(const Kernel& kernel) const {
  const bool again =
      std::any_of(kernel.outputs.begin(), kernel.outputs.end(),
                  [&](const KernelOutput& output) { return SpansAll(kernel, output.dims); });
  return std::count_if(kernel.stages.begin(), kernel.stages.end(), IsReduction) + (again ? 1 : 0);
}

int64_t Columns::SharedBytes(const Kernel& kernel) const {
  if (rows == 1) return 0;
  int64_t of_column = 0;
  for (const Stage& stage : kernel.stages)
    of_column += (IsReduction(stage) ? runs + 1 : 1) * static_cast<int64_t>(SizeOf(stage.type));
  return of_column * vector * columns;
}

absl::Status Columns::CheckFor(const Kernel& kernel) const {
  const auto wrong = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("columns: ", what));
  };
  if (columns * rows > kThreadsRange.most) return wrong("a block has more than 1024 threads");
  if (runs % rows != 0) return wrong("rows are no divisor of runs");
  if (levels > 1 && runs != kOuterReduceBlock)
    return wrong("blocks of several levels have 32 runs");
  if (SharedBytes(kernel) > kMostSharedBytes) return wrong("a block needs more than 48 KiB");
  return absl::OkStatus();
}

LoopSummary Columns::Loops(const Kernel& kernel) const {
  return {.nests = LoopSummary::Nests::kTiles,
          .step = vector,
          .columns = vector * columns,
          .grid = {.columns = columns,
                   .rows = rows,
                   .vector = vector,
                   .parts = rows,
                   .run = kOuterReduceBlock,
                   .shared_bytes = SharedBytes(kernel),
                   .outer_levels = levels > 1 ? levels : 0}};
}

const Template kColumns = {"columns", "reductions over a dim that is not the innermost",
                           AcceptsKernel, CandidatesFor, Make<Columns>};

}  // namespace kiln
