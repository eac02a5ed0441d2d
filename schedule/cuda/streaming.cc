// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/streaming.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

constexpr int64_t kAccessBytes = 16;  // correctness: the widest access of a thread
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

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes, const Machine&) {
  std::vector<Schedule> candidates;
  for (int64_t vector = WidestVector(kernel); vector >= 1; vector /= 2) {
    const int64_t most =
        kernel.num_iterated() > 1 ? MostColumns(kernel, sizes, vector) : kBlockThreads;
    for (int64_t columns = most; columns >= 1 && columns >= most / kOfColumns; columns /= 2) {
      Streaming streaming;
      streaming.vector = vector;
      streaming.columns = columns;
      streaming.rows = kernel.num_iterated() > 1 ? kBlockThreads / columns : 1;
      Schedule schedule(kStreaming, streaming);
      schedule.in_place = ElementwisePairs(kernel);
      candidates.push_back(std::move(schedule));
      if (kernel.num_iterated() == 1) break;
    }
  }
  return candidates;
}

}  // namespace

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

absl::Status Streaming::CheckFor(const Kernel&) const {
  if (columns * rows <= kThreadsRange.most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("streaming: columns=", columns, " rows=", rows,
                                                 " are more than ", kThreadsRange.most,
                                                 " threads"));
}

const Template kStreaming = {"streaming", "element-wise, a thread for each few elements", Accepts,
                             Candidates, Make<Streaming>};

}  // namespace kiln
