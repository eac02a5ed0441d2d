// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/memory_order.h"

#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

// The outer dim along which rows follow each other in the first input that has them in another
// order than the outputs; the last outer one if there is none such, but an input has a row for
// several of them. -1 if rows need no coordinates.
int32_t OrderOfRows(const Kernel& kernel) {
  const int32_t x = kernel.innermost();
  int32_t order = -1;
  for (const KernelInput& input : kernel.inputs) {
    const std::vector<int32_t>& dims = input.dims;
    const bool iterated =
        std::all_of(dims.begin(), dims.end(), [x](int32_t dim) { return dim <= x; });
    if (input.layout != Layout::kDense || !iterated) return -1;
    if (dims.empty() || dims == std::vector<int32_t>{x} || SpansOuter(kernel, dims) ||
        SpansAll(kernel, dims))
      continue;
    const bool moved = dims.back() == x && static_cast<int32_t>(dims.size()) == x + 1;
    if (moved) return dims[dims.size() - 2];
    order = x - 1;
  }
  return order;
}

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  const int32_t x = kernel.innermost();
  const auto segments = static_cast<int64_t>(Cuts(kernel).size());
  MemoryOrder permuted;
  permuted.task = GrainFor(kernel, machine);
  permuted.segments = segments;
  permuted.order = segments > 0 ? x - 1 : TransposedDim(kernel) >= 0 ? -1 : OrderOfRows(kernel);
  if (x < 1 || permuted.order < 0) return {};
  std::vector<Schedule> candidates;
  for (const int64_t step : StepsFor(kernel, machine, sizes.at_most[static_cast<size_t>(x)])) {
    permuted.step = step;
    candidates.push_back(InPlace(kMemoryOrder, permuted, kernel));
  }
  return candidates;
}

}  // namespace

const Template kMemoryOrder = {"memory_order", "element-wise, short rows with permuted loops",
                               AcceptsElementwise, Candidates, Make<MemoryOrder>};

}  // namespace kiln
