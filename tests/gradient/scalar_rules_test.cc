// SPDX-License-Identifier: Apache-2.0
// The table of primitives against differences, and what a choice passes on.
#include "graph/gradient/scalar_rules.h"

#include <cmath>
#include <optional>
#include <vector>

#include "graph/reference/scalar.h"
#include "gtest/gtest.h"

namespace kiln::gradient {
namespace {

constexpr DType kType = DType::kF64;

double Evaluate(const ScalarExpr& expr, const std::vector<double>& values) {
  std::vector<reference::Element> elements, scratch(expr.nodes().size());
  for (const double value : values) elements.emplace_back().f = value;
  return reference::EvaluateScalar(expr, elements, scratch).f;
}

Ex Input(ScalarExpr& expr, int k) { return Read(expr, kType, ReadSource::kInput, k, {}); }

// Of one primitive: its value, and the cotangents of its operands.
struct OneStep {
  explicit OneStep(ScalarOp op) {
    const int arity = Info(op).arity;
    Ex args[3];
    for (int k = 0; k < 4; ++k) (k < 3 ? args[k] : g) = Input(expr, k);
    const bool choice = op == ScalarOp::kSelect || op == ScalarOp::kGuard;
    if (choice) args[0] = args[0] < args[0].Like(0.25);
    const Ex y = arity == 1   ? Apply(op, args[0])
                 : arity == 2 ? Apply(op, args[0], args[1])
                              : Apply(op, args[0], args[1], args[2]);
    expr.set_root(y.id);
    value = expr;
    cotangents = Reverse(expr, g, std::nullopt, 4);
  }
  ScalarExpr expr, value;
  Ex g;
  std::vector<std::optional<Ex>> cotangents;
};

bool IsConversion(ScalarOp op) {
  return op == ScalarOp::kCast || op == ScalarOp::kRoundTo || op == ScalarOp::kBitcast;
}

TEST(ScalarRules, AgreeWithDifferences) {
  const std::vector<double> points[] = {{0.3, 0.7, -0.4, 1.5}, {0.8, 0.6, 0.2, -0.5}};
  int differentiated = 0;
  for (int i = 0; i < kNumScalarOps; ++i) {
    const auto op = static_cast<ScalarOp>(i);
    const ScalarRuleKind kind = RuleOf(op).kind;
    if (kind == ScalarRuleKind::kNone || IsConversion(op)) continue;
    ++differentiated;
    for (std::vector<double> at : points) {
      if (op == ScalarOp::kAcosh) at[0] += 1;
      const OneStep step(op);
      for (int k = 0; k < Info(op).arity; ++k) {
        const auto f = [&](double by) {
          std::vector<double> moved = at;
          moved[static_cast<size_t>(k)] += by;
          return Evaluate(step.value, moved);
        };
        const double h = 1e-3;
        const double want = at[3] * (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
        double got = 0;
        if (const std::optional<Ex> part = step.cotangents[static_cast<size_t>(k)]) {
          ScalarExpr expr = step.expr;
          expr.set_root(part->id);
          got = Evaluate(expr, at);
        }
        EXPECT_NEAR(got, want, 1e-8 * (1 + std::abs(want))) << Info(op).name << ", operand " << k;
      }
    }
  }
  EXPECT_EQ(differentiated, 43);
}

// sqrt(x) where x > 0, else x: at 0 the derivative of the root is infinite, and not chosen.
TEST(ScalarRules, BranchThatIsNotChosenIsNoNan) {
  ScalarExpr expr;
  const Ex x = Input(expr, 0), g = Input(expr, 1);
  expr.set_root(Select(x > x.Like(0), Apply(ScalarOp::kSqrt, x), x).id);
  const std::vector<std::optional<Ex>> parts = Reverse(expr, g, std::nullopt, 1);
  ASSERT_TRUE(parts[0]);
  expr.set_root(parts[0]->id);
  EXPECT_EQ(Evaluate(expr, {0, 3}), 3);
  EXPECT_EQ(Evaluate(expr, {4, 1}), 0.25);
}

}  // namespace
}  // namespace kiln::gradient
