// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/transpose.h"

#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

// Positions along dims that are collapsed are found by products of 16 bits, which are exact while
// all but the outermost of these dims have so many elements together.
constexpr int64_t kMostDivided = 127;  // correctness

// The last dims, innermost first, that all inputs have which are contiguous along `along`, before
// the innermost dim of the kernel.
std::vector<int32_t> CommonDims(const Kernel& kernel, int32_t along) {
  std::vector<int32_t> common;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (TransposedAlong(kernel, i) != along) continue;
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (common.empty()) common.assign(dims.rbegin(), dims.rend());
    const auto differ = std::mismatch(common.begin(), common.end(), dims.rbegin(), dims.rend());
    common.erase(differ.first, common.end());
  }
  common.erase(std::find(common.begin(), common.end(), kernel.innermost()), common.end());
  return common;
}

// How many of them may be collapsed.
int64_t MostDims(const Kernel& kernel, const SizeClass& sizes, int32_t along) {
  const std::vector<int32_t> common = CommonDims(kernel, along);
  int64_t count = 1, divided = 1;
  for (size_t k = 0; k + 1 < common.size(); ++k, ++count) {
    const int64_t extent = std::max<int64_t>(1, sizes.at_most[static_cast<size_t>(common[k])]);
    if (extent > kMostDivided / divided) break;
    divided *= extent;
  }
  return count;
}

// A tile stays in registers while it is transposed, and what its shuffles make takes as many again.
bool FitsRegisters(int64_t tile, const Machine& machine) {
  return 2 * tile * kTileRows * int64_t{sizeof(float)} <= machine.registers * machine.vector_bytes;
}

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  constexpr int64_t kManyColumns = 64;  // speed
  const int32_t along = TransposedDim(kernel);
  if (along < 0 || !Cuts(kernel).empty()) return {};
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  Transpose transpose;
  transpose.step = LanesForRow(LanesFor(kernel, machine, kMostVectors), row);
  transpose.task = GrainFor(kernel, machine);
  transpose.along = along;
  const int64_t most_dims = MostDims(kernel, sizes, along);
  std::vector<Schedule> candidates;
  for (int64_t dims = 1; dims <= most_dims; dims += std::max<int64_t>(1, most_dims - 1)) {
    for (const int64_t columns : {int64_t{1}, kManyColumns}) {
      for (const int64_t tile : {16, 8}) {  // correctness: those that the code is written for
        if (!FitsRegisters(tile, machine)) continue;
        transpose.dims = dims;
        transpose.columns = columns;
        transpose.tile = tile;
        candidates.push_back(InPlace(kTranspose, transpose, kernel));
      }
    }
  }
  return candidates;
}

}  // namespace

const Template kTranspose = {"transpose", "element-wise, tiles transposed in registers",
                             AcceptsElementwise, Candidates, Make<Transpose>};

}  // namespace kiln
