// SPDX-License-Identifier: Apache-2.0
#include "schedule/work.h"

#include <array>

#include "kernel/math.h"

namespace kiln {
namespace {

// Elements of a type take so many times the room of an f32.
double Width(DType type) { return std::max<double>(1, static_cast<double>(SizeOf(type)) / 4); }

// How much of what a function is made of.
struct Parts {
  double adds = 0, divs = 0, sqrts = 0, depth = 0;
};

Parts PartsOf(const ScalarExpr& expr) {
  Parts parts;
  std::vector<double> depth;
  for (const ExprNode& node : expr.nodes()) {
    const double width = Width(node.type);
    const bool computes = node.op != ScalarOp::kBitcast && Info(node.op).arity > 0;
    const double own = computes ? 1 : 0;
    double& kind = node.op == ScalarOp::kDiv    ? parts.divs
                   : node.op == ScalarOp::kSqrt ? parts.sqrts
                                                : parts.adds;
    kind += own * width;
    double before = 0;
    for (const ExprId arg : node.args)
      if (arg >= 0) before = std::max(before, depth[static_cast<size_t>(arg)]);
    depth.push_back(before + own);
  }
  parts.depth = depth.empty() ? 0 : depth[static_cast<size_t>(expr.root())];
  return parts;
}

// Functions by their expansions for f32.
std::array<Parts, kNumScalarOps> FunctionParts() {
  std::array<Parts, kNumScalarOps> table;
  for (int i = 0; i < kNumScalarOps; ++i) {
    const auto op = static_cast<ScalarOp>(i);
    if (!Info(op).function) continue;
    ScalarExpr expr;
    const DType type = HasExpansion(op, DType::kF32) ? DType::kF32 : DType::kU64;
    const Ex x = Param(expr, type, 0);
    const Ex result = Info(op).arity == 2 ? Apply(op, x, Param(expr, type, 1)) : Apply(op, x);
    expr.set_root(result.id);
    const absl::StatusOr<ScalarExpr> expanded = ExpandForUsual(expr);
    if (expanded.ok()) table[static_cast<size_t>(i)] = PartsOf(*expanded);
  }
  return table;
}

const Parts& PartsOf(ScalarOp function) {
  static const std::array<Parts, kNumScalarOps> kParts = FunctionParts();
  return kParts[static_cast<size_t>(function)];
}

bool IsExtreme(ScalarOp op, DType type) {
  return (op == ScalarOp::kMax || op == ScalarOp::kMin) && !IsInt(type);
}

}  // namespace

bool IsExpensive(ScalarOp op) {
  return op == ScalarOp::kDiv || op == ScalarOp::kMod || op == ScalarOp::kSqrt || Info(op).function;
}

Work WorkOf(const ScalarExpr& expr, const ExprNode& node, const Machine& machine) {
  if (Info(node.op).arity == 0) return {};
  const DType type = node.type == DType::kBool ? expr.node(node.args[0]).type : node.type;
  const double width = Width(type);
  if (Info(node.op).function) {
    const Parts& parts = PartsOf(node.op);
    return {width * parts.adds * machine.add_ns,
            width * (parts.divs * machine.div_ns + parts.sqrts * machine.sqrt_ns)};
  }
  if (node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod) {
    if (IsInt(type)) return {machine.integer_div_ns, 0};
    return {0, width * machine.div_ns};
  }
  if (node.op == ScalarOp::kSqrt) return {0, width * machine.sqrt_ns};
  if (IsExtreme(node.op, type)) return {width * machine.extreme_ns, 0};
  return {width * machine.add_ns, 0};
}

Chain ChainOf(const ScalarExpr& expr, const ExprNode& node) {
  if (Info(node.op).arity == 0) return {};
  const DType type = node.type == DType::kBool ? expr.node(node.args[0]).type : node.type;
  const double width = Width(type);
  if (Info(node.op).function) {
    const Parts& parts = PartsOf(node.op);
    return {width * (parts.adds + parts.divs + parts.sqrts), parts.depth};
  }
  return {width, 1};
}

double CombineNs(const Stage& reduction, const Machine& machine) {
  const bool selects = reduction.op == ReduceOp::kMax || reduction.op == ReduceOp::kMin;
  return selects && !IsInt(reduction.type) ? machine.extreme_ns : machine.add_ns;
}

}  // namespace kiln
