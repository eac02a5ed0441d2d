// SPDX-License-Identifier: Apache-2.0
#include "kernel/math.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernel/math_internal.h"
#include "kernel/nan_check_elision.h"

namespace kiln {
namespace {

using math_internal::Operands;

std::optional<Ex> Expand(ScalarOp op, Ex x, Ex y, Operands operands = Operands::kAll) {
  if (op == ScalarOp::kPhilox && x.type() == DType::kU64) return math_internal::Philox(x, y);
  if (op == ScalarOp::kPhilox || !IsFloat(x.type())) return std::nullopt;
  if (x.type() == DType::kF32) {
    if (const std::optional<Ex> fast = math_internal::ExpandFast(op, x, operands)) return fast;
  }
  return math_internal::ExpandWide(op, x, y);
}

// True if node `id` of an expression of `kernel` is a - max(a), the maximum over some dims: the
// form of a softmax. It is not above 0, or NaN.
bool IsBelowMaximum(const Kernel& kernel, const ScalarExpr& expr, ExprId id) {
  const ExprNode& difference = expr.node(id);
  if (difference.op != ScalarOp::kSub || difference.type != DType::kF32) return false;
  const ExprNode& read = expr.node(difference.args[1]);
  if (read.op != ScalarOp::kRead || read.source != ReadSource::kStage) return false;
  const Stage& stage = kernel.stages[static_cast<size_t>(read.ref)];
  if (stage.kind != Stage::Kind::kReduce || stage.op != ReduceOp::kMax) return false;
  if (stage.type != DType::kF32) return false;
  for (size_t axis = 0; axis < stage.dims.size(); ++axis) {
    if (read.index[axis] != IndexExpr::Dim(stage.dims[axis])) return false;
  }
  // Equal nodes of one expression have one id.
  ScalarExpr both = expr;
  const auto copy = [](ExprId, const std::vector<ExprId>&) -> ExprId { return -1; };
  return CopyExpr(stage.expr, stage.expr.root(), both, copy) == difference.args[0];
}

// `kernel` is where `expr` stands, or nullptr.
absl::StatusOr<ScalarExpr> Expanded(const ScalarExpr& expr, const Kernel* kernel,
                                    Operands operands = Operands::kAll) {
  ScalarExpr out;
  absl::Status status;
  const auto replace = [&](ExprId id, const std::vector<ExprId>& map) -> ExprId {
    const ExprNode& node = expr.node(id);
    if (!Info(node.op).function || !status.ok()) return -1;
    const Ex x{&out, map[static_cast<size_t>(node.args[0])]};
    if (node.op == ScalarOp::kExp && kernel != nullptr &&
        IsBelowMaximum(*kernel, expr, node.args[0])) {
      return math_internal::ExpNotPositive(x).id;
    }
    const Ex y = node.args[1] < 0 ? x : Ex{&out, map[static_cast<size_t>(node.args[1])]};
    if (const std::optional<Ex> made = Expand(node.op, x, y, operands)) return made->id;
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

}  // namespace

bool HasExpansion(ScalarOp op, DType type) {
  if (!Info(op).function) return false;
  ScalarExpr expr;
  return Expand(op, Param(expr, type, 0), Param(expr, type, 1)).has_value();
}

int64_t ExpandedSize(ScalarOp op, DType type) {
  if (!Info(op).function) return 1;
  if (op == ScalarOp::kPhilox) type = DType::kU64;
  ScalarExpr expr;
  const Ex x = Param(expr, type, 0), y = Param(expr, type, 1);
  if (!Expand(op, x, y)) return 1;
  int64_t size = 0;
  for (const ExprNode& node : expr.nodes()) {
    if (node.op != ScalarOp::kConst && node.op != ScalarOp::kParam)
      size += SizeOf(node.type) == 8 ? 2 : 1;
  }
  return size;
}

absl::StatusOr<ScalarExpr> ExpandMath(const ScalarExpr& expr) { return Expanded(expr, nullptr); }

absl::StatusOr<ScalarExpr> ExpandForUsual(const ScalarExpr& expr) {
  return Expanded(expr, nullptr, Operands::kUsual);
}

absl::StatusOr<Kernel> ExpandMath(const Kernel& kernel) {
  Kernel out = kernel;
  for (size_t i = 0; i < out.stages.size(); ++i) {
    Stage& stage = out.stages[i];
    KILN_ASSIGN_OR_RETURN(stage.expr, Expanded(stage.expr, &kernel));
    if (NanCheckElisionWithout(kernel, i)) stage.op = ReduceOp::kGreatest;
  }
  for (KernelOutput& output : out.outputs) {
    KILN_ASSIGN_OR_RETURN(output.expr, Expanded(output.expr, &kernel));
  }
  return out;
}

}  // namespace kiln
