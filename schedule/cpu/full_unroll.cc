// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/full_unroll.h"

#include <algorithm>
#include <tuple>

#include "schedule/analysis.h"
#include "schedule/cpu/schedulers.h"

namespace kiln {
namespace {

Decision Accepts(const Kernel& kernel) {
  if (kernel.num_iterated() < 2) return Decision::No("it has no dim outside of the innermost");
  if (kPointwiseScheduler.accepts(kernel)) return Decision::Yes();
  return kRowScheduler.accepts(kernel);
}

}  // namespace

const Template kFullUnroll = {"full_unroll", "rows of a few elements, each made by one step",
                              Accepts, Make<FullUnroll>};

std::optional<FullUnroll> UnrolledFor(const Kernel& kernel, const SizeClass& sizes,
                                      const Machine& machine, int64_t most) {
  constexpr int64_t kManyRows = 64;  // of which a part of a vector is little
  const int x = kernel.innermost();
  if (x < 1) return std::nullopt;
  const int64_t width = sizes.at_most[static_cast<size_t>(x)];
  if (width > most) return std::nullopt;
  FullUnroll unrolled;
  int32_t first = x - 1;
  for (int32_t d = x - 2; d >= 0 && ElementsOf(sizes, first, x - 1) < kManyRows; --d) {
    auto expanded = TablesToRunAsOne(kernel, sizes, d, x - 1);
    if (expanded) std::tie(first, unrolled.expanded) = std::pair(d, *std::move(expanded));
  }
  if (ElementsOf(sizes, first, x - 1) < kMostKnown) return std::nullopt;
  unrolled.step = LanesFor(kernel, machine, 1);
  unrolled.task = GrainFor(kernel, machine);
  unrolled.inner = std::max<int64_t>(1, width);
  unrolled.vectorized = x - first;
  for (const int64_t bound : sizes.at_most)
    unrolled.known.push_back(bound > kMostKnown ? -1 : bound);
  return unrolled;
}

}  // namespace kiln
