// SPDX-License-Identifier: Apache-2.0
#include "kernel/operands.h"

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

}  // namespace kiln
