// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/deinterleave.h"

#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

// Halide makes dense loads and shuffles of strides up to this.
constexpr int64_t kMostStride = 4;  // correctness

// True if in every input that runs along `channel` the innermost dim comes next, so that its
// elements are as far from each other as `channel` is long.
bool StridesByChannel(const Kernel& kernel, int32_t channel) {
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (TransposedAlong(kernel, i) == channel && dims[dims.size() - 2] != kernel.innermost())
      return false;
  }
  return true;
}

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const int32_t channel = TransposedDim(kernel);
  if (channel < 0 || !Cuts(kernel).empty() || !StridesByChannel(kernel, channel)) return {};
  const auto d = static_cast<size_t>(channel);
  if (!sizes.IsExtent(d) || sizes.at_most[d] > kMostStride) return {};
  Deinterleave deinterleave;
  deinterleave.task = GrainFor(kernel, machine);
  deinterleave.channel = channel;
  deinterleave.channels = std::max<int64_t>(1, sizes.at_most[d]);
  const int64_t row = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  const int64_t step = LanesForRow(LanesFor(kernel, machine, kMostVectors), row);
  std::vector<Schedule> candidates;
  for (const bool together : {true, false}) {
    for (const int64_t steps : {2, 1}) {
      deinterleave.step = std::min(kMostLanes, steps * step);
      deinterleave.together = together;
      candidates.push_back(InPlace(kDeinterleave, deinterleave, kernel));
    }
  }
  return candidates;
}

}  // namespace

const Template kDeinterleave = {"deinterleave", "element-wise, a few interleaved channels",
                                AcceptsElementwise, Candidates, Make<Deinterleave>};

}  // namespace kiln
