// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/row_column_parts.h"

#include "schedule/analysis.h"

namespace kiln {
namespace {

bool ReadsStage(const ExprNode& node) {
  return node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
}

Half Only(const Kernel& kernel, const std::vector<size_t>& outputs) {
  std::vector<bool> needed(kernel.stages.size(), false);
  const auto mark = [&](const ScalarExpr& expr) {
    for (const ExprNode& node : expr.nodes()) {
      if (ReadsStage(node)) needed[static_cast<size_t>(node.ref)] = true;
    }
  };
  for (const size_t output : outputs) mark(kernel.outputs[output].expr);
  for (size_t i = kernel.stages.size(); i-- > 0;) {
    if (needed[i]) mark(kernel.stages[i].expr);
  }

  Half half = {.kernel = kernel, .stages = {}, .outputs = outputs};
  half.kernel.stages.clear();
  half.kernel.outputs.clear();
  std::vector<int32_t> place(kernel.stages.size(), -1);
  const auto moved = [&](const ScalarExpr& expr) {
    ScalarExpr out;
    out.set_root(
        CopyExpr(expr, expr.root(), out, [&](ExprId id, const std::vector<ExprId>&) -> ExprId {
          const ExprNode& node = expr.node(id);
          if (!ReadsStage(node)) return -1;
          const int32_t stage = place[static_cast<size_t>(node.ref)];
          return Read(out, node.type, ReadSource::kStage, stage, node.index).id;
        }));
    return out;
  };
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    if (!needed[i]) continue;
    place[i] = static_cast<int32_t>(half.stages.size());
    half.stages.push_back(i);
    half.kernel.stages.push_back(kernel.stages[i]);
    half.kernel.stages.back().expr = moved(kernel.stages[i].expr);
  }
  for (const size_t output : outputs) {
    half.kernel.outputs.push_back(kernel.outputs[output]);
    half.kernel.outputs.back().expr = moved(kernel.outputs[output].expr);
  }
  return half;
}

}  // namespace

Halves HalvesOf(const Kernel& kernel) {
  std::vector<size_t> rows, columns;
  for (size_t i = 0; i < kernel.outputs.size(); ++i)
    (SpansAll(kernel, kernel.outputs[i].dims) ? rows : columns).push_back(i);
  return {Only(kernel, rows), Only(kernel, columns)};
}

}  // namespace kiln
