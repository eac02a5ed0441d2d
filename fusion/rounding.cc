// SPDX-License-Identifier: Apache-2.0
#include "fusion/rounding.h"

#include <cmath>
#include <vector>

#include "graph/tensors.h"

namespace kiln {
namespace {

// Whether `node` of an expression is a value of `type`; `is` says so of earlier nodes.
bool IsOne(const ScalarExpr& expr, const ExprNode& node, DType type, const std::vector<bool>& is,
           const TypeOfRead& type_of) {
  const auto arg = [&](int k) { return bool{is[static_cast<size_t>(node.args[k])]}; };
  switch (node.op) {
    case ScalarOp::kConst: {
      const double value = ConstValue(node.type, node.imm);
      return std::isnan(value) || RoundTo(value, type) == value;
    }
    case ScalarOp::kRead:
      return type_of(node) == type;
    case ScalarOp::kRoundTo:
      return node.aux == type;
    case ScalarOp::kCast: {  // a byte has at most eight bits, as bf16 has
      const DType from = expr.node(node.args[0]).type;
      return !IsFloat(from) && SizeOf(from) == 1;
    }
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kRound:
    case ScalarOp::kTrunc:
      return arg(0);
    case ScalarOp::kSign:
      return true;
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFmod:
      return arg(0) && arg(1);
    case ScalarOp::kSelect:
    case ScalarOp::kGuard:
      return arg(1) && arg(2);
    default:
      return false;
  }
}

}  // namespace

Ex RoundedTo(Ex value, DType type, const TypeOfRead& type_of) {
  if (!IsFloat(type) || SizeOf(type) != 2) return value;
  const ScalarExpr& expr = *value.expr;
  std::vector<bool> is(static_cast<size_t>(value.id) + 1, false);
  for (size_t i = 0; i < is.size(); ++i) {
    const ExprNode& node = expr.nodes()[i];
    is[i] = node.type == DType::kF32 && IsOne(expr, node, type, is, type_of);
  }
  return is.back() ? value : RoundTo(value, type);
}

}  // namespace kiln
