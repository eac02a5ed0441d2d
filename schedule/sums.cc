// SPDX-License-Identifier: Apache-2.0
#include "schedule/sums.h"

#include <algorithm>
#include <vector>

#include "schedule/loop_counts.h"

namespace kiln {

Decision AcceptsSums(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce) return Decision::No("it has a reduction");
  }
  if (kernel.num_iterated() == 0) return Decision::No("it has no dim to loop over");
  return Decision::Yes();
}

bool AddsRows(const Kernel& kernel) {
  const KernelOutput& output = kernel.outputs[0];
  if (output.dims.empty() || output.dims.back() != kernel.innermost()) return false;
  const std::vector<uint64_t> varies = VariesWith(output.expr);
  const std::vector<IndexExpr>& index = output.expr.node(output.expr.root()).index;
  return std::none_of(index.begin(), index.end(), [&](const IndexExpr& axis) {
    return axis.load >= 0 &&
           (varies[static_cast<size_t>(axis.load)] >> kernel.innermost() & 1) != 0;
  });
}

size_t DividedAxis(const Kernel& kernel) {
  const std::vector<int32_t>& dims = kernel.outputs[0].dims;
  const auto loaded = std::find_if(dims.begin(), dims.end(),
                                   [&](int32_t dim) { return dim >= kernel.num_iterated(); });
  return static_cast<size_t>(loaded - dims.begin());
}

bool HasOnePlace(const Kernel& kernel) {
  const ScalarExpr& expr = kernel.outputs[0].expr;
  const int32_t place = expr.node(expr.root()).index[DividedAxis(kernel)].load;
  return place >= 0 && VariesWith(expr)[static_cast<size_t>(place)] == 0;
}

}  // namespace kiln
