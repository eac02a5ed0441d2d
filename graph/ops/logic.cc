// SPDX-License-Identifier: Apache-2.0
// Comparison, logic, choice and conversion.
#include <cmath>

#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

template <ScalarOp op>
Ex Binary(ScalarBody& b) {
  return Apply(op, b.in(0), b.in(1));
}
template <ScalarOp op>
Ex Unary(ScalarBody& b) {
  return Apply(op, b.in(0));
}

Ex Greater(ScalarBody& b) { return b.in(0) > b.in(1); }
Ex GreaterEqual(ScalarBody& b) { return b.in(0) >= b.in(1); }
Ex Where(ScalarBody& b) { return Select(b.in(0), b.in(1), b.in(2)); }
Ex Identity(ScalarBody& b) { return b.in(0); }
Ex CastBody(ScalarBody& b) { return Cast(b.in(0), ComputeType(b.out())); }

Ex IsInf(ScalarBody& b) {
  const Ex x = b.in(0);
  const Ex above = x == x.Like(INFINITY);
  const Ex below = x == x.Like(-INFINITY);
  const bool positive = IntAttr(b.node(), "detect_positive") != 0;
  const bool negative = IntAttr(b.node(), "detect_negative") != 0;
  if (positive && negative) return above || below;
  if (!positive && !negative) return Literal(b.expr(), DType::kBool, 0);
  return positive ? above : below;
}

absl::Status InferWhere(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(
      c, 0, [](DType type) { return type == DType::kBool; }, "bool"));
  if (c.type(1) != c.type(2)) {
    return absl::InvalidArgumentError("inputs 1 and 2 have different types; cast one of them");
  }
  KILN_ASSIGN_OR_RETURN(Shape shape, BroadcastInputs(c));
  c.SetOutput(0, c.type(1), std::move(shape));
  return absl::OkStatus();
}

absl::Status InferCast(InferContext& c) {
  c.SetOutput(0, TypeAttr(c.node(), "to"), c.shape(0));
  return absl::OkStatus();
}

constexpr AttrSpec kCastAttrs[] = {
    {"to", AttrKind::kType, true, 0, nullptr, "the type of the result"}};
constexpr AttrSpec kIsInfAttrs[] = {
    {"detect_negative", AttrKind::kInt, false, 1, nullptr, "whether -inf counts"},
    {"detect_positive", AttrKind::kInt, false, 1, nullptr, "whether +inf counts"}};

constexpr OpDef Compare(const char* name, const char* doc, Ex (*body)(ScalarBody&),
                        absl::Status (*infer)(InferContext&), OnnxForm onnx, const char* witness) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kScalar,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .scalar = body,
          .onnx = {onnx},
          .test = {-2, 2},
          .witness = witness,
          .gradient = {.none = gradient::kGivesBooleans}};
}

bool IsBool(DType type) { return type == DType::kBool; }

constexpr OpDef Bits(const char* name, const char* doc, Ex (*body)(ScalarBody&), OnnxForm of_bools,
                     OnnxForm of_bits, const char* witness) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kScalar,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = InferBits,
          .scalar = body,
          .onnx = {of_bools, of_bits},
          .test = {-2, 2},
          .witness = witness,
          .gradient = {.none = gradient::kGivesIntegers}};
}

constexpr OpDef Shift(const char* name, const char* doc, Ex (*body)(ScalarBody&)) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kScalar,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = InferInteger,
          .scalar = body,
          .onnx_converted = "BitShift",
          .test = {-2, 2},
          .witness = "onnx node tests: bitshift",
          .gradient = {.none = gradient::kGivesIntegers}};
}

constexpr OpDef kLogicOps[] = {
    Compare("equal", "a == b; false with NaN.", Binary<ScalarOp::kEq>, InferCompare, {"Equal", 7},
            "onnx node tests: equal"),
    Compare("not_equal", "a != b; true with NaN.", Binary<ScalarOp::kNe>, InferCompare, {},
            "IEEE 754"),
    Compare("less", "a < b; false with NaN.", Binary<ScalarOp::kLt>, InferOrder, {"Less", 7},
            "onnx node tests: less"),
    Compare("less_equal", "a <= b; false with NaN.", Binary<ScalarOp::kLe>, InferOrder,
            {"LessOrEqual", 12}, "onnx node tests: less_equal"),
    Compare("greater", "a > b; false with NaN.", Greater, InferOrder, {"Greater", 7},
            "onnx node tests: greater"),
    Compare("greater_equal", "a >= b; false with NaN.", GreaterEqual, InferOrder,
            {"GreaterOrEqual", 12}, "onnx node tests: greater_equal"),
    Bits("and", "a and b; bit by bit for integers.", Binary<ScalarOp::kAnd>, {"And", 7, IsBool},
         {"BitwiseAnd", 18}, "onnx node tests: and, bitwise_and"),
    Bits("or", "a or b; bit by bit for integers.", Binary<ScalarOp::kOr>, {"Or", 7, IsBool},
         {"BitwiseOr", 18}, "onnx node tests: or, bitwise_or"),
    Bits("xor", "Either a or b; bit by bit for integers.", Binary<ScalarOp::kXor>,
         {"Xor", 7, IsBool}, {"BitwiseXor", 18}, "onnx node tests: xor, bitwise_xor"),
    Shift("shift_left", "a << b; an amount outside the bits of a gives 0.", Binary<ScalarOp::kShl>),
    Shift("shift_right", "a >> b, with the sign; an amount outside the bits of a gives 0 or -1.",
          Binary<ScalarOp::kShr>),
    {.name = "not",
     .doc = "not x; bit by bit for integers.",
     .kind = OpKind::kScalar,
     .infer = InferBits,
     .scalar = Unary<ScalarOp::kNot>,
     .onnx = {{"Not", 6, IsBool}, {"BitwiseNot", 18}},
     .witness = "onnx node tests: not, bitwise_not",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "where",
     .doc = "b where a is true, else c; the bits of the chosen one.",
     .kind = OpKind::kScalar,
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = InferWhere,
     .scalar = Where,
     .onnx = {{"Where", 9}},
     .witness = "onnx node tests: where"},
    {.name = "is_nan",
     .doc = "Whether x is NaN.",
     .kind = OpKind::kScalar,
     .infer = InferFloatToBool,
     .scalar = Unary<ScalarOp::kIsNan>,
     .onnx = {{"IsNaN", 9}},
     .witness = "onnx node tests: isnan",
     .gradient = {.none = gradient::kGivesBooleans}},
    {.name = "is_inf",
     .doc = "Whether x is infinite.",
     .kind = OpKind::kScalar,
     .attrs = kIsInfAttrs,
     .infer = InferFloatToBool,
     .scalar = IsInf,
     .onnx = {{"IsInf", 10}},
     .witness = "onnx node tests: isinf",
     .gradient = {.none = gradient::kGivesBooleans}},
    {.name = "cast",
     .doc = "x in another type. Float to integer truncates and saturates, NaN "
            "gives 0; integers wrap; to bool is x != 0.",
     .kind = OpKind::kScalar,
     .attrs = kCastAttrs,
     .infer = InferCast,
     .scalar = CastBody,
     .onnx_converted = "Cast CastLike",
     .test = {-9, 9},
     .witness = "onnx node tests: cast",
     .gradient = {.note = "between floats; of all other types 0"}},
    {.name = "stop_gradient",
     .doc = "x; no gradient goes through it.",
     .kind = OpKind::kScalar,
     .infer = InferElementwise,
     .scalar = Identity,
     .witness = "identity",
     .gradient = {.rule = gradient::Nothing, .note = "0"}},
    {.name = "identity",
     .doc = "x.",
     .kind = OpKind::kScalar,
     .infer = InferElementwise,
     .scalar = Identity,
     .onnx = {{"Identity"}},
     .onnx_converted = "Dropout",
     .witness = "onnx node tests: identity"},
};

}  // namespace

std::span<const OpDef> LogicOps() { return kLogicOps; }

}  // namespace kiln::ops
