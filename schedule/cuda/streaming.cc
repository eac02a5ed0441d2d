// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/streaming.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

constexpr int64_t kAccessBytes = 16;  // correctness: the widest access of a thread
constexpr int64_t kFewestWalked = 4;  // compile time: rows of a thread that are tried
constexpr int64_t kMostWalked = 32;   // compile time: 2 % more requests than of other operands
constexpr int64_t kOfColumns = 16;    // compile time: the most columns / the fewest that are tried

Decision Accepts(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    if (stage.kind == Stage::Kind::kReduce) return Decision::No("it has a reduction");
  if (kernel.num_iterated() == 0) return Decision::No("it has no dim to loop over");
  if (!OutputsInOrder(kernel, /*rows=*/false))
    return Decision::No("an output is not dense over all dims in their order");
  return Decision::Yes();
}

// The threads that the innermost dim keeps busy, a power of two.
int64_t MostColumns(const Kernel& kernel, const SizeClass& sizes, int64_t vector) {
  const int64_t length = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  int64_t columns = 1;
  while (columns < kBlockThreads && columns * vector < length) columns *= 2;
  return columns;
}

// Whether some operand is read once by a thread that walks down rows, in expressions that are all
// at its own element.
bool KeepsRows(const Kernel& kernel) {
  const auto elsewhere = [&](const ExprNode& node) {
    return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
           !IsIdentityRead(node, kernel.stages[static_cast<size_t>(node.ref)].dims);
  };
  const auto none_elsewhere = [&](const auto& made) {
    return std::none_of(made.expr.nodes().begin(), made.expr.nodes().end(), elsewhere);
  };
  return std::any_of(kernel.inputs.begin(), kernel.inputs.end(),
                     [&](const KernelInput& input) { return IsRowOfAll(kernel, input); }) &&
         std::all_of(kernel.stages.begin(), kernel.stages.end(), none_elsewhere) &&
         std::all_of(kernel.outputs.begin(), kernel.outputs.end(), none_elsewhere);
}

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes, const Machine&) {
  std::vector<Schedule> candidates;
  const int64_t widest = WidestVector(kernel);
  for (int64_t vector = widest; vector >= 1; vector /= 2) {
    const bool keeps = vector == widest && KeepsRows(kernel);
    const int64_t most =
        kernel.num_iterated() > 1 ? MostColumns(kernel, sizes, vector) : kBlockThreads;
    for (int64_t columns = most; columns >= 1 && columns >= most / kOfColumns; columns /= 2) {
      Streaming streaming;
      streaming.vector = vector;
      streaming.columns = columns;
      streaming.rows = kernel.num_iterated() > 1 ? kBlockThreads / columns : 1;
      Schedule schedule(kStreaming, streaming);
      schedule.in_place = ElementwisePairs(kernel);
      candidates.push_back(schedule);
      for (int64_t walked = kFewestWalked; keeps && walked <= kMostWalked; walked *= 2) {
        streaming.walked = walked;
        Schedule walks(kStreaming, streaming);
        walks.in_place = schedule.in_place;
        candidates.push_back(std::move(walks));
      }
      if (kernel.num_iterated() == 1) break;
    }
  }
  return candidates;
}

}  // namespace

bool IsRowOfAll(const Kernel& kernel, const KernelInput& input) {
  return kernel.num_iterated() > 1 && input.layout == Layout::kDense &&
         input.dims == std::vector<int32_t>{kernel.innermost()};
}

int64_t WidestVector(const Kernel& kernel) {
  int64_t least = kAccessBytes;
  const auto narrow = [&](DType type) {
    least = std::min(least, static_cast<int64_t>(SizeOf(type)));
  };
  for (const KernelInput& input : kernel.inputs)
    if (!input.dims.empty() && input.dims.back() == kernel.innermost()) narrow(input.type);
  for (const KernelOutput& output : kernel.outputs) narrow(output.type);
  return kAccessBytes / least;
}

absl::Status Streaming::CheckFor(const Kernel& kernel) const {
  if (walked > 1 && !KeepsRows(kernel))
    return absl::InvalidArgumentError(absl::StrCat(
        "streaming: walked=", walked, " is for kernels with an operand that all rows read alike"));
  if (columns * rows <= kThreadsRange.most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("streaming: columns=", columns, " rows=", rows,
                                                 " are more than ", kThreadsRange.most,
                                                 " threads"));
}

const Template kStreaming = {"streaming", "element-wise, a thread for each few elements", Accepts,
                             Candidates, Make<Streaming>};

}  // namespace kiln
