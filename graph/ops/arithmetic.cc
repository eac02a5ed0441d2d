// SPDX-License-Identifier: Apache-2.0
// Arithmetic on one element: sums, products, rounding, bounds.
#include <cmath>
#include <optional>

#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

template <ScalarOp op>
Ex Unary(ScalarBody& b) {
  return Apply(op, b.in(0));
}

template <ScalarOp op>
Ex Binary(ScalarBody& b) {
  return Apply(op, b.in(0), b.in(1));
}

// x^k by squaring, for a whole number k >= 1.
Ex WholePower(Ex x, int k) {
  if (k == 1) return x;
  const Ex half = WholePower(x, k / 2);
  return k % 2 == 0 ? half * half : half * half * x;
}

// The value of a literal, if the expression is one.
std::optional<double> LiteralValue(Ex e) {
  const ExprNode& node = e.expr->node(e.id);
  if (node.op != ScalarOp::kConst) return std::nullopt;
  return ConstValue(node.type, node.imm);
}

constexpr int kMaxWholePower = 4;

// Integers: by squaring over the bits of the exponent; a negative exponent gives 1 / x^|y|, which
// truncates.
Ex IntegerPower(Ex x, Ex y) {
  const Ex one = x.Like(1);
  const bool is_signed = IsSigned(y.type());
  const Ex size = is_signed ? Apply(ScalarOp::kAbs, y) : y;
  Ex result = one;
  Ex base = x;
  for (size_t bit = 0; bit < 8 * SizeOf(y.type()); ++bit) {
    const Ex odd = (Apply(ScalarOp::kShr, size, size.Like(static_cast<double>(bit))) &&
                    size.Like(1)) != size.Like(0);
    result = Select(odd, result * base, result);
    base = base * base;
  }
  return is_signed ? Select(y < y.Like(0), one / result, result) : result;
}

// x^y for the exponents that are products, roots and quotients, whether a model's constant or its
// data gives them: folding, and sharing numbers, must not change a bit.
struct SimplePower {
  double exponent;
  Ex (*value)(Ex x);
  bool whole;  // of integers too
};

// pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf, where sqrt gives -0 and NaN.
Ex PowerOfHalf(Ex x) {
  const Ex root = Apply(ScalarOp::kSqrt, x + x.Like(0));
  return Select(x == x.Like(-INFINITY), x.Like(INFINITY), root);
}

constexpr SimplePower kSimplePowers[] = {
    {1, [](Ex x) { return x; }, true},
    {2, [](Ex x) { return x * x; }, true},
    {3, [](Ex x) { return x * x * x; }, true},
    {4, [](Ex x) { return (x * x) * (x * x); }, true},
    {0.5, PowerOfHalf, false},
    {-1, [](Ex x) { return x.Like(1) / x; }, false},
};

// pow of floats, in the type of x; integers that a float exponent raises are computed in its type.
Ex GeneralPower(Ex x, Ex y) {
  if (IsFloat(x.type())) return Apply(ScalarOp::kPow, x, Cast(y, x.type()));
  return Cast(Apply(ScalarOp::kPow, Cast(x, y.type()), y), x.type());
}

Ex PowBody(ScalarBody& b) {
  const Ex x = b.in(0);
  const Ex y = b.in(1);
  const bool is_float = IsFloat(x.type());
  const std::optional<double> given = LiteralValue(y);
  if (!is_float && !IsFloat(y.type())) {
    return given && *given >= 1 && *given <= kMaxWholePower
               ? WholePower(x, static_cast<int>(*given))
               : IntegerPower(x, y);
  }
  std::optional<Ex> simple, any;
  for (const SimplePower& power : kSimplePowers) {
    if (!is_float && !power.whole) continue;
    if (given == power.exponent) return power.value(x);
    if (given || (!IsFloat(y.type()) && power.exponent == 0.5)) continue;
    if (power.exponent < 0 && !IsFloat(y.type()) && !IsSigned(y.type())) continue;
    const Ex here = y == y.Like(power.exponent);
    any = any ? *any || here : here;
    simple = simple ? Select(here, power.value(x), *simple) : power.value(x);
  }
  return simple ? Select(!*any, GeneralPower(x, y), *simple) : GeneralPower(x, y);
}

// The exponent may have another type than the base; the result has the base's.
absl::Status InferPow(InferContext& c) {
  if (absl::Status status = RequireType(c, 0, IsNumber, "a float or integer type"); !status.ok())
    return status;
  if (absl::Status status = RequireType(c, 1, IsNumber, "a float or integer type"); !status.ok())
    return status;
  absl::StatusOr<Shape> shape = BroadcastInputs(c);
  if (!shape.ok()) return shape.status();
  c.SetOutput(0, c.type(0), *std::move(shape));
  return absl::OkStatus();
}

Ex ModBody(ScalarBody& b) {
  const Ex x = b.in(0);
  const Ex y = b.in(1);
  const Ex rest =  // sign of the dividend
      Apply(IsFloat(x.type()) ? ScalarOp::kFmod : ScalarOp::kMod, x, y);
  if (IntAttr(b.node(), "fmod") != 0 || (!IsFloat(x.type()) && !IsSigned(x.type()))) return rest;
  const Ex zero = x.Like(0);
  const Ex adjust = (rest != zero) && ((rest < zero) != (y < zero));
  return Select(adjust, rest + y, rest);
}

Ex ClipBody(ScalarBody& b) {
  Ex x = b.in(0);
  if (b.has(1)) x = Apply(ScalarOp::kMax, x, b.in(1));
  if (b.has(2)) x = Apply(ScalarOp::kMin, x, b.in(2));
  return x;
}

Ex AbsBody(ScalarBody& b) {
  return IsSigned(b.in(0).type()) || IsFloat(b.in(0).type()) ? Apply(ScalarOp::kAbs, b.in(0))
                                                             : b.in(0);
}
Ex ReciprocalBody(ScalarBody& b) { return b.in(0).Like(1) / b.in(0); }

constexpr AttrSpec kModAttrs[] = {
    {"fmod", AttrKind::kInt, false, 0, nullptr,
     "1: the result has the sign of the dividend; 0: of the divisor"}};

constexpr OpDef kArithmeticOps[] = {
    {.name = "add",
     .doc = "a + b; integers wrap.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Binary<ScalarOp::kAdd>,
     .onnx = {{"Add", 7}},
     .onnx_converted = "Sum",
     .test = {-4, 4},
     .witness = "onnx node tests: add, sum"},
    {.name = "sub",
     .doc = "a - b; integers wrap.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Binary<ScalarOp::kSub>,
     .onnx = {{"Sub", 7}},
     .test = {-4, 4},
     .witness = "onnx node tests: sub"},
    {.name = "mul",
     .doc = "a * b; integers wrap.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Binary<ScalarOp::kMul>,
     .onnx = {{"Mul", 7}},
     .test = {-4, 4},
     .witness = "onnx node tests: mul"},
    {.name = "div",
     .doc = "a / b. Integers truncate; x / 0 is 0 and the least number / -1 is itself.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Binary<ScalarOp::kDiv>,
     .onnx = {{"Div", 7}},
     .test = {-4, 4},
     .witness = "onnx node tests: div",
     .gradient = {.rule = gradient::Div, .note = "a / 0: as the quotients say"}},
    {.name = "mod",
     .doc = "The remainder of a / b, with the sign of b (or of a: attribute fmod); "
            "x mod 0 is 0 for integers. Of floats it is C's fmod, exact.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kModAttrs,
     .infer = InferNumber,
     .scalar = ModBody,
     .onnx = {{"Mod", 10}},
     .test = {-8, 8},
     .witness = "onnx node tests: mod",
     .gradient = {.note = "0 goes on at the jumps"}},
    {.name = "max",
     .doc = "The larger one; NaN if either is NaN.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Binary<ScalarOp::kMax>,
     .onnx = {{"Max"}},
     .test = {-4, 4},
     .witness = "onnx node tests: max",
     .gradient = {.rule = gradient::Extremum, .note = "a tie: half each; NaN: to both"}},
    {.name = "min",
     .doc = "The smaller one; NaN if either is NaN.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferNumber,
     .scalar = Binary<ScalarOp::kMin>,
     .onnx = {{"Min"}},
     .test = {-4, 4},
     .witness = "onnx node tests: min",
     .gradient = {.rule = gradient::Extremum, .note = "a tie: half each; NaN: to both"}},
    {.name = "neg",
     .doc = "-x; integers wrap.",
     .kind = OpKind::kScalar,
     .infer = InferNumber,
     .scalar = Unary<ScalarOp::kNeg>,
     .onnx = {{"Neg"}},
     .test = {-4, 4},
     .witness = "onnx node tests: neg"},
    {.name = "abs",
     .doc = "|x|; |-0| is 0; integers wrap.",
     .kind = OpKind::kScalar,
     .infer = InferNumber,
     .scalar = AbsBody,
     .onnx = {{"Abs"}},
     .test = {-4, 4},
     .witness = "onnx node tests: abs",
     .gradient = {.note = "0 at 0"}},
    {.name = "sign",
     .doc = "-1, 0 or 1; NaN and -0 stay.",
     .kind = OpKind::kScalar,
     .infer = InferNumber,
     .scalar = Unary<ScalarOp::kSign>,
     .onnx = {{"Sign", 9}},
     .test = {-4, 4},
     .witness = "onnx node tests: sign",
     .gradient = {.note = "0"}},
    {.name = "reciprocal",
     .doc = "1 / x.",
     .kind = OpKind::kScalar,
     .infer = InferFloat,
     .scalar = ReciprocalBody,
     .onnx = {{"Reciprocal"}},
     .test = {0.25, 4},
     .witness = "onnx node tests: reciprocal"},
    {.name = "pow",
     .doc = "a to the power b, in the type of a. A constant exponent of 1 to 4 is "
            "multiplication. Integer powers wrap.",
     .kind = OpKind::kScalar,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = InferPow,
     .scalar = PowBody,
     .onnx = {{"Pow", 7}},
     .test = {0.25, 4},
     .witness = "onnx node tests: pow",
     .gradient = {.rule = gradient::Pow, .note = "of a: 0 if b is 0; of b: 0 if a is 0, b >= 0"}},
    {.name = "floor",
     .doc = "Rounds down.",
     .kind = OpKind::kScalar,
     .infer = InferFloat,
     .scalar = Unary<ScalarOp::kFloor>,
     .onnx = {{"Floor"}},
     .test = {-9, 9},
     .witness = "onnx node tests: floor",
     .gradient = {.note = "0"}},
    {.name = "ceil",
     .doc = "Rounds up.",
     .kind = OpKind::kScalar,
     .infer = InferFloat,
     .scalar = Unary<ScalarOp::kCeil>,
     .onnx = {{"Ceil"}},
     .test = {-9, 9},
     .witness = "onnx node tests: ceil",
     .gradient = {.note = "0"}},
    {.name = "round",
     .doc = "Rounds to the nearest whole number, ties to even.",
     .kind = OpKind::kScalar,
     .infer = InferFloat,
     .scalar = Unary<ScalarOp::kRound>,
     .onnx = {{"Round", 11}},
     .test = {-9, 9},
     .witness = "onnx node tests: round",
     .gradient = {.note = "0"}},
    {.name = "clip",
     .doc = "min(max(x, low), high); both bounds are optional; NaN stays NaN.",
     .kind = OpKind::kScalar,
     .min_inputs = 1,
     .max_inputs = 3,
     .infer = InferNumber,
     .scalar = ClipBody,
     .onnx = {{"Clip", 11}},
     .test = {-4, 4},
     .witness = "onnx node tests: clip",
     .gradient = {.rule = gradient::Clip, .note = "a bound counts as within; NaN: 0"}},
};

}  // namespace

std::span<const OpDef> ArithmeticOps() { return kArithmeticOps; }

}  // namespace kiln::ops
