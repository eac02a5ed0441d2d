// SPDX-License-Identifier: Apache-2.0
#include "kiln/kernel/math.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/kernel/math_internal.h"

namespace kiln {
namespace {

std::optional<Ex> Expand(ScalarOp op, Ex x, Ex y) {
  if (!IsFloat(x.type())) return std::nullopt;
  if (x.type() == DType::kF32) {
    if (const std::optional<Ex> fast = math_internal::ExpandFast(op, x)) return fast;
  }
  return math_internal::ExpandWide(op, x, y);
}

}  // namespace

bool HasExpansion(ScalarOp op, DType type) {
  if (!Info(op).function || (type != DType::kF32 && type != DType::kF64)) return false;
  ScalarExpr expr;
  return Expand(op, Param(expr, type, 0), Param(expr, type, 1)).has_value();
}

absl::StatusOr<ScalarExpr> ExpandMath(const ScalarExpr& expr) {
  ScalarExpr out;
  absl::Status status;
  const auto replace = [&](ExprId id, const std::vector<ExprId>& map) -> ExprId {
    const ExprNode& node = expr.node(id);
    if (!Info(node.op).function || !status.ok()) return -1;
    const Ex x{&out, map[static_cast<size_t>(node.args[0])]};
    const Ex y = node.args[1] < 0 ? x : Ex{&out, map[static_cast<size_t>(node.args[1])]};
    if (const std::optional<Ex> made = Expand(node.op, x, y)) return made->id;
    status =
        absl::UnimplementedError(absl::StrCat("\"", Info(node.op).name, "\": has no expansion for ",
                                              Name(node.type), "; cast to a float type first"));
    return -1;
  };
  out.set_root(CopyExpr(expr, expr.root(), out, replace));
  KILN_RETURN_IF_ERROR(status);
  out.Prune();
  return out;
}

absl::StatusOr<Kernel> ExpandMath(const Kernel& kernel) {
  Kernel out = kernel;
  for (Stage& stage : out.stages) {
    KILN_ASSIGN_OR_RETURN(stage.expr, ExpandMath(stage.expr));
  }
  for (KernelOutput& output : out.outputs) {
    KILN_ASSIGN_OR_RETURN(output.expr, ExpandMath(output.expr));
  }
  return out;
}

}  // namespace kiln
