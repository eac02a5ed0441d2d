// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/full_unroll.h"

#include <algorithm>
#include <tuple>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/index_split.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

// A step has the code of a whole row: operations of it, which take some 0.2 s to compile, or for a
// reduction, whose trees are counted for a loop, some 0.3 s.
constexpr int64_t kMostRowWork = 400, kMostReducedWork = 1000;  // compile time

Decision Accepts(const Kernel& kernel) {
  if (kernel.num_iterated() < 2) return Decision::No("it has no dim outside of the innermost");
  if (AcceptsElementwise(kernel)) return Decision::Yes();
  return AcceptsRows(kernel);
}

// Vectors along the dim before the innermost, or along as many before it as can be collapsed.
std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const int32_t x = kernel.innermost();
  const auto d = static_cast<size_t>(x);
  const int64_t row = std::max<int64_t>(1, sizes.at_most[d]);
  if (!sizes.IsExtent(d) || row > kMostKnown) return {};
  const bool reduces = !AcceptsElementwise(kernel);
  if (row * CompileWork(kernel) > (reduces ? kMostReducedWork : kMostRowWork)) return {};
  FullUnroll unrolled;
  unrolled.step = LanesFor(kernel, machine, 1);
  unrolled.task = GrainFor(kernel, machine);
  unrolled.inner = row;
  for (size_t k = 0; k < sizes.at_most.size(); ++k) {
    const int64_t bound = sizes.at_most[k];
    unrolled.known.push_back(sizes.IsExtent(k) && bound <= kMostKnown ? bound : -1);
  }
  if (reduces) unrolled.stored = Members(MapsOfRowsToMaterialise(kernel));
  std::vector<Schedule> candidates;
  const auto add = [&] {
    candidates.push_back(reduces && kernel.outputs.size() > 1
                             ? Schedule(kFullUnroll, unrolled)
                             : InPlace(kFullUnroll, unrolled, kernel));
  };
  const auto add_all = [&] {
    add();
    if (reduces || !Cuts(kernel).empty() || !ReadsInOrder(kernel)) return;
    unrolled.packed = true;
    add();
    unrolled.packed = false;
  };
  add_all();
  for (int32_t first = 0; first < x - 1; ++first) {
    auto expanded = BroadcastsToExpand(kernel, sizes, first, x - 1);
    if (!expanded) continue;
    unrolled.expanded = *std::move(expanded);
    unrolled.vectorized = x - first;
    add_all();
    break;
  }
  return candidates;
}

}  // namespace

const Template kFullUnroll = {"full_unroll", "rows of a few elements, each made by one step",
                              Accepts, Candidates, Make<FullUnroll>};

}  // namespace kiln
