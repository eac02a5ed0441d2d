// SPDX-License-Identifier: Apache-2.0
#include "schedule/work.h"

#include <array>

#include "kernel/math.h"

namespace kiln {
namespace {

// Divisions and roots of f64, in those of f32: a vector has half as many, and each takes longer.
constexpr double kWideDivision = 3.2;  // speed

// A product of 64-bit integers, in additions: vector units have none, or a slow one.
constexpr double kWideProduct = 6;  // speed

// The greatest or least of two floats, in additions: NaN is told apart.
constexpr double kLetsNanThrough = 3.25;  // speed

// The latency of divisions and roots, in those of additions.
constexpr double kDividerDepth = 4;  // speed

// Elements of a type take so many times the room of an f32.
double Width(DType type) { return std::max<double>(1, static_cast<double>(SizeOf(type)) / 4); }

double DivisionWidth(DType type) { return Width(type) > 1 ? kWideDivision : 1; }

// How much of what a function is made of.
struct Parts {
  double adds = 0, divs = 0, sqrts = 0, depth = 0;
};

Parts PartsOf(const ScalarExpr& expr) {
  Parts parts;
  std::vector<double> depth;
  for (const ExprNode& node : expr.nodes()) {
    const double width = Width(node.type);
    const bool wide_product = node.op == ScalarOp::kMul && IsInt(node.type) && width > 1;
    double own = 0;
    if (node.op == ScalarOp::kDiv) {
      parts.divs += DivisionWidth(node.type);
      own = kDividerDepth;
    } else if (node.op == ScalarOp::kSqrt) {
      parts.sqrts += DivisionWidth(node.type);
      own = kDividerDepth;
    } else if (node.op != ScalarOp::kBitcast && Info(node.op).arity > 0) {
      parts.adds += wide_product ? kWideProduct : width;
      own = 1;
    }
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
    const Ex x = Param(expr, DType::kF32, 0);
    const Ex result =
        Info(op).arity == 2 ? Apply(op, x, Param(expr, DType::kF32, 1)) : Apply(op, x);
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

bool IsDear(ScalarOp op) {
  return op == ScalarOp::kDiv || op == ScalarOp::kMod || op == ScalarOp::kSqrt || Info(op).function;
}

Work WorkOf(const ScalarExpr& expr, const ExprNode& node, const Machine& machine) {
  if (Info(node.op).arity == 0) return {};
  const DType type = node.type == DType::kBool ? expr.node(node.args[0]).type : node.type;
  const double width = Width(type);
  if (Info(node.op).function) {
    const Parts& parts = PartsOf(node.op);
    return {width * parts.adds * machine.add_ns,
            DivisionWidth(type) * (parts.divs * machine.div_ns + parts.sqrts * machine.sqrt_ns)};
  }
  if (node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod) {
    if (IsInt(type)) return {machine.integer_div_ns, 0};
    return {0, DivisionWidth(type) * machine.div_ns};
  }
  if (node.op == ScalarOp::kSqrt) return {0, DivisionWidth(type) * machine.sqrt_ns};
  if (IsExtreme(node.op, type)) return {width * kLetsNanThrough * machine.add_ns, 0};
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
  if (node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod || node.op == ScalarOp::kSqrt)
    return {width, kDividerDepth};
  if (IsExtreme(node.op, type)) return {width * kLetsNanThrough, 2};
  return {width, 1};
}

double CombineAdds(const Stage& reduction) {
  const bool selects = reduction.op == ReduceOp::kMax || reduction.op == ReduceOp::kMin;
  return selects && !IsInt(reduction.type) ? kLetsNanThrough : 1;
}

}  // namespace kiln
