// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/packed_blocks.h"

#include <algorithm>
#include <bit>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

// Elements of a vector, and operations in all of its registers, so that code stays short.
constexpr int64_t kMostElements = 128, kMostWork = 400;  // compile time

// If the last dims are known to be tiny, and the dim along which inputs lie is one of them or comes
// right before. The last vector makes elements twice: nothing in place.
std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const int32_t along = TransposedDim(kernel), x = kernel.innermost();
  if (along < 0 || !Cuts(kernel).empty()) return {};
  const auto known = [&](int32_t dim) {
    const auto d = static_cast<size_t>(dim);
    return sizes.IsExtent(d) ? sizes.at_most[d] : kUnbounded;
  };
  const int64_t work = std::max<int64_t>(1, CompileWork(kernel));
  const int64_t most = std::min(kMostElements, kMostWork / work * LanesFor(kernel, machine, 1));
  int32_t first = x + 1;
  int64_t block = 1;
  while (first > 0 && block > 0 && known(first - 1) <= most / block &&
         known(first - 1) <= kMostKnown)
    block *= known(--first);
  if (block == 0 || first >= x || first == 0 || along < first - 1) return {};
  const auto blocks = static_cast<uint64_t>(
      std::clamp<int64_t>(sizes.at_most[static_cast<size_t>(first - 1)], 1, most / block));
  PackedBlocks packed;
  packed.blocks = static_cast<int64_t>(std::bit_floor(blocks));
  packed.task = GrainFor(kernel, machine);
  packed.dims = x + 1 - first;
  packed.known.assign(kernel.dims.size(), -1);
  for (int32_t d = first; d <= x; ++d) packed.known[static_cast<size_t>(d)] = known(d);
  std::vector<Schedule> candidates = {{kPackedBlocks, packed}};
  if (packed.blocks > 1) {
    packed.blocks /= 2;
    candidates.emplace_back(kPackedBlocks, packed);
  }
  return candidates;
}

}  // namespace

const Template kPackedBlocks = {"packed_blocks", "element-wise, vectors of whole blocks of dims",
                                AcceptsElementwise, Candidates, Make<PackedBlocks>};

}  // namespace kiln
