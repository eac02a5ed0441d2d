// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/scalar_rules.h"

#include <iterator>

#include "base/check.h"

namespace kiln::gradient {
namespace {

constexpr double kTwoOverRootPi = 1.12837916709551257390;
constexpr double kLn2 = 0.69314718055994530942;

Ex Square(Ex x) { return x * x; }
Ex OneMinusSquare(Ex x) { return x.Like(1) - Square(x); }
Ex Rsqrt(Ex x) { return Apply(ScalarOp::kRsqrt, x); }
Ex Bell(const ScalarStep& s) {  // erf'(a)
  return s.g * (s.a.Like(kTwoOverRootPi) * Apply(ScalarOp::kExp, -Square(s.a)));
}

// The same cotangent, between float types.
Ex Back(const ScalarStep& s) { return s.g.type() == s.a.type() ? s.g : Cast(s.g, s.a.type()); }
Ex Same(const ScalarStep& s) { return s.g; }

constexpr ScalarRule Smooth(ScalarOp op, ScalarFormula a, ScalarFormula b = nullptr,
                            ScalarFormula c = nullptr) {
  return {op, ScalarRuleKind::kSmooth, {a, b, c}};
}
constexpr ScalarRule Choice(ScalarOp op, ScalarFormula chosen, int8_t yes, int8_t no) {
  return {op, ScalarRuleKind::kChoice, {}, chosen, yes, no};
}
constexpr ScalarRule Flat(ScalarOp op) { return {op, ScalarRuleKind::kFlat}; }
constexpr ScalarRule None(ScalarOp op) { return {op, ScalarRuleKind::kNone}; }

using S = const ScalarStep&;

constexpr ScalarRule kRules[] = {
    None(ScalarOp::kConst),
    None(ScalarOp::kRead),
    None(ScalarOp::kParam),
    None(ScalarOp::kIndex),
    None(ScalarOp::kExtent),
    Smooth(ScalarOp::kAdd, Same, Same),
    Smooth(ScalarOp::kSub, Same, [](S s) { return -s.g; }),
    Smooth(
        ScalarOp::kMul, [](S s) { return s.g * s.b; }, [](S s) { return s.g * s.a; }),
    Smooth(
        ScalarOp::kDiv, [](S s) { return s.g / s.b; }, [](S s) { return -s.g * (s.y / s.b); }),
    None(ScalarOp::kMod),
    Smooth(
        ScalarOp::kFma, [](S s) { return s.g * s.b; }, [](S s) { return s.g * s.a; }, Same),
    Smooth(ScalarOp::kNeg, [](S s) { return -s.g; }),
    Smooth(ScalarOp::kAbs, [](S s) { return s.g * Apply(ScalarOp::kSign, s.a); }),
    Flat(ScalarOp::kSign),
    // As they are defined: a is chosen if it is NaN or beyond b.
    Choice(
        ScalarOp::kMin, [](S s) { return s.b <= s.a; }, 1, 0),
    Choice(
        ScalarOp::kMax, [](S s) { return s.a <= s.b; }, 1, 0),
    Smooth(ScalarOp::kSqrt, [](S s) { return s.g / (s.y * s.y.Like(2)); }),
    Flat(ScalarOp::kFloor),
    Flat(ScalarOp::kCeil),
    Flat(ScalarOp::kRound),
    Flat(ScalarOp::kTrunc),
    None(ScalarOp::kEq),
    None(ScalarOp::kNe),
    None(ScalarOp::kLt),
    None(ScalarOp::kLe),
    None(ScalarOp::kIsNan),
    None(ScalarOp::kAnd),
    None(ScalarOp::kOr),
    None(ScalarOp::kXor),
    None(ScalarOp::kNot),
    None(ScalarOp::kShl),
    None(ScalarOp::kShr),
    Choice(
        ScalarOp::kSelect, [](S s) { return s.a; }, 1, 2),
    Choice(
        ScalarOp::kGuard, [](S s) { return s.a; }, 1, 2),
    Smooth(ScalarOp::kCast, Back),
    None(ScalarOp::kBitcast),
    Smooth(ScalarOp::kRoundTo, Same),
    Smooth(ScalarOp::kExp, [](S s) { return s.g * s.y; }),
    Smooth(ScalarOp::kLog, [](S s) { return s.g / s.a; }),
    Smooth(ScalarOp::kTanh, [](S s) { return s.g * OneMinusSquare(s.y); }),
    Smooth(ScalarOp::kErf, Bell),
    Smooth(ScalarOp::kSigmoid, [](S s) { return s.g * (s.y * (s.y.Like(1) - s.y)); }),
    Smooth(ScalarOp::kRsqrt, [](S s) { return s.g * s.y.Like(-0.5) * (Square(s.y) * s.y); }),
    Smooth(
        ScalarOp::kPow,
        [](S s) { return s.g * (s.b * Apply(ScalarOp::kPow, s.a, s.b - s.b.Like(1))); },
        [](S s) { return s.g * (s.y * Apply(ScalarOp::kLog, s.a)); }),
    Smooth(ScalarOp::kSin, [](S s) { return s.g * Apply(ScalarOp::kCos, s.a); }),
    Smooth(ScalarOp::kCos, [](S s) { return -s.g * Apply(ScalarOp::kSin, s.a); }),
    Smooth(ScalarOp::kTan, [](S s) { return s.g * (Square(s.y) + s.y.Like(1)); }),
    Smooth(ScalarOp::kAsin, [](S s) { return s.g * Rsqrt(OneMinusSquare(s.a)); }),
    Smooth(ScalarOp::kAcos, [](S s) { return -s.g * Rsqrt(OneMinusSquare(s.a)); }),
    Smooth(ScalarOp::kAtan, [](S s) { return s.g / (Square(s.a) + s.a.Like(1)); }),
    Smooth(ScalarOp::kSinh, [](S s) { return s.g * Apply(ScalarOp::kCosh, s.a); }),
    Smooth(ScalarOp::kCosh, [](S s) { return s.g * Apply(ScalarOp::kSinh, s.a); }),
    Smooth(ScalarOp::kAsinh, [](S s) { return s.g * Rsqrt(Square(s.a) + s.a.Like(1)); }),
    Smooth(ScalarOp::kAcosh, [](S s) { return s.g * Rsqrt(Square(s.a) - s.a.Like(1)); }),
    Smooth(ScalarOp::kAtanh, [](S s) { return s.g / OneMinusSquare(s.a); }),
    Smooth(ScalarOp::kExp2, [](S s) { return s.g * (s.y * s.y.Like(kLn2)); }),
    Smooth(ScalarOp::kExpm1, [](S s) { return s.g * Apply(ScalarOp::kExp, s.a); }),
    Smooth(ScalarOp::kLog2, [](S s) { return s.g / (s.a * s.a.Like(kLn2)); }),
    Smooth(ScalarOp::kLog1p, [](S s) { return s.g / (s.a + s.a.Like(1)); }),
    Smooth(ScalarOp::kSoftplus, [](S s) { return s.g * Apply(ScalarOp::kSigmoid, s.a); }),
    Smooth(ScalarOp::kErfc, [](S s) { return -Bell(s); }),
    Smooth(ScalarOp::kCbrt, [](S s) { return s.g / (Square(s.y) * s.y.Like(3)); }),
    // a = q * b + y for a whole number q
    Smooth(ScalarOp::kFmod, Same,
           [](S s) { return -s.g * Apply(ScalarOp::kRound, (s.a - s.y) / s.b); }),
    None(ScalarOp::kPhilox),
    // of kernels; in no body
    None(ScalarOp::kAddAt),
};
static_assert(std::size(kRules) == kNumScalarOps);

constexpr bool InOrder() {
  for (int i = 0; i < kNumScalarOps; ++i) {
    if (static_cast<int>(kRules[i].op) != i) return false;
  }
  return true;
}
static_assert(InOrder(), "rules stand in the order of ScalarOp");

using Cotangents = std::vector<std::optional<Ex>>;

class Reverser {
 public:
  Reverser(ScalarExpr& expr, std::optional<Ex> y, size_t num_inputs)
      : expr_(expr), y_(y), root_(expr.root()), num_inputs_(num_inputs) {
    for (const ExprNode& node : expr.nodes()) {
      bool reads = node.op == ScalarOp::kRead;
      for (const ExprId arg : node.args) reads = reads || (arg >= 0 && reads_[Ix(arg)]);
      reads_.push_back(reads && IsFloat(node.type));
    }
  }

  // Of node `id`, by recursion: bodies are small, and equal nodes are stored once.
  Cotangents Of(ExprId id, Ex g) {
    Cotangents result(num_inputs_);
    if (!reads_[Ix(id)]) return result;
    const ExprNode node = expr_.node(id);  // a copy: nodes are added
    if (node.op == ScalarOp::kRead) {
      result[static_cast<size_t>(node.ref)] = g;
      return result;
    }
    const ScalarRule& rule = RuleOf(node.op);
    const ScalarStep step = {At(node.args[0]), At(node.args[1]), At(node.args[2]),
                             id == root_ && y_ ? *y_ : At(id), g};
    if (rule.kind == ScalarRuleKind::kChoice) return Chosen(rule, node, step);
    if (rule.kind != ScalarRuleKind::kSmooth) return result;
    for (int k = 0; k < Info(node.op).arity; ++k) {
      const ExprId arg = node.args[k];
      if (rule.cotangents[k] == nullptr || !reads_[Ix(arg)]) continue;
      const Cotangents part = Of(arg, rule.cotangents[k](step));
      for (size_t i = 0; i < num_inputs_; ++i) {
        if (part[i]) result[i] = result[i] ? *result[i] + *part[i] : *part[i];
      }
    }
    return result;
  }

 private:
  static size_t Ix(ExprId id) { return static_cast<size_t>(id); }
  Ex At(ExprId id) { return {&expr_, id}; }

  Cotangents Chosen(const ScalarRule& rule, const ExprNode& node, const ScalarStep& step) {
    const Cotangents yes = Of(node.args[rule.yes], step.g), no = Of(node.args[rule.no], step.g);
    Cotangents result(num_inputs_);
    for (size_t i = 0; i < num_inputs_; ++i) {
      if (!yes[i] && !no[i]) continue;
      const Ex zero = (yes[i] ? *yes[i] : *no[i]).Like(0);
      result[i] = Select(rule.chosen(step), yes[i].value_or(zero), no[i].value_or(zero));
    }
    return result;
  }

  ScalarExpr& expr_;
  const std::optional<Ex> y_;
  const ExprId root_;
  const size_t num_inputs_;
  std::vector<bool> reads_;  // of the nodes that were there: floats that depend on a read
};

}  // namespace

const ScalarRule& RuleOf(ScalarOp op) {
  KILN_CHECK(static_cast<int>(op) < kNumScalarOps);
  return kRules[static_cast<size_t>(op)];
}

Cotangents Reverse(ScalarExpr& expr, Ex g, std::optional<Ex> y, size_t num_inputs) {
  return Reverser(expr, y, num_inputs).Of(expr.root(), g);
}

}  // namespace kiln::gradient
