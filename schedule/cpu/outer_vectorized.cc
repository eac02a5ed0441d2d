// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/outer_vectorized.h"

#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

constexpr int64_t kMostRow = 24;  // compile time: a tile has the code of a whole row

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const int32_t x = kernel.innermost();
  const auto d = static_cast<size_t>(x);
  if (!sizes.IsExtent(d) || sizes.at_most[d] > kMostRow || !ReadsWholeRows(kernel)) return {};
  const int64_t step = machine.vector_bytes / 4;
  if (ElementsOf(sizes, 0, x - 1) < 2 * step) return {};
  OuterVectorized across;
  across.step = step;
  across.task = GrainFor(kernel, machine);
  across.row = std::max<int64_t>(1, sizes.at_most[d]);
  across.stored = Members(MapsOfRowsToMaterialise(kernel));
  Schedule schedule(kOuterVectorized, std::move(across));
  if (kernel.outputs.size() == 1) schedule.in_place = ElementwisePairs(kernel);
  return {schedule};
}

}  // namespace

const Template kOuterVectorized = {"outer_vectorized",
                                   "reductions of short rows, vectors across rows", AcceptsRows,
                                   Candidates, Make<OuterVectorized>};

}  // namespace kiln
