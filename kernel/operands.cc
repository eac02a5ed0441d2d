// SPDX-License-Identifier: Apache-2.0
#include "kernel/operands.h"

#include <algorithm>

namespace kiln {

const std::vector<int32_t>& OperandDims(const Kernel& kernel, const ExprNode& node) {
  const auto ref = static_cast<size_t>(node.ref);
  return node.source == ReadSource::kInput ? kernel.inputs[ref].dims : kernel.stages[ref].dims;
}

std::vector<const ScalarExpr*> Expressions(const Kernel& kernel) {
  std::vector<const ScalarExpr*> exprs;
  for (const Stage& stage : kernel.stages) exprs.push_back(&stage.expr);
  for (const KernelOutput& output : kernel.outputs) exprs.push_back(&output.expr);
  return exprs;
}

bool ReducesNothing(const Kernel& kernel, std::span<const int64_t> extents) {
  const auto empty = [&](int32_t dim) { return extents[static_cast<size_t>(dim)] == 0; };
  return std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
    return std::any_of(stage.over.begin(), stage.over.end(), empty);
  });
}

}  // namespace kiln
