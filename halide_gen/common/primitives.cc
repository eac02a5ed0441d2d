// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/primitives.h"

#include <bit>
#include <cmath>

#include "halide_gen/common/vector_fma.h"
#include "kernel/eval.h"

namespace kiln {
namespace {

using Halide::cast;
using Halide::Expr;
using Halide::reinterpret;
using Halide::select;
using Halide::Type;

// The unsigned type of the same width, in which arithmetic wraps.
Expr AsUnsigned(const Expr& value) {
  return value.type().is_uint() ? value : reinterpret(value.type().with_code(Type::UInt), value);
}

Expr WithType(const Expr& bits, Type type) {
  return bits.type() == type ? bits : reinterpret(type, bits);
}

Expr Number(Type type, int64_t value) {
  return type.is_float() ? Halide::Internal::make_const(type, static_cast<double>(value))
                         : Halide::Internal::make_const(type, value);
}

Expr FloatBits(const Expr& value) { return reinterpret(value.type().with_code(Type::UInt), value); }

Expr SignBit(Type bits) {
  return Halide::Internal::make_const(bits, uint64_t{1} << (bits.bits() - 1));
}

Expr Fma(const Expr& a, const Expr& b, const Expr& c) {
  return Halide::Internal::Call::make(a.type(), VectorFmaName(a.type().bits()), {a, b, c},
                                      Halide::Internal::Call::PureExtern);
}

// `value`, as which Halide does not know it: x * 1 + -0 is x, and LLVM knows that. The -0 is given
// by its bits, since Halide takes it and 0 for equal.
Expr Hidden(const Expr& value) {
  const Type type = value.type();
  const Type bits = type.with_code(Type::UInt);
  return Fma(value, Number(type, 1), reinterpret(type, SignBit(bits)));
}

// An operand of a condition. To Halide's bounds a float is never NaN: it takes x - x and x * 0 for
// 0, and where it cuts loops into parts, it drops conditions that this decides.
Expr Undecided(const Expr& value) {
  const auto* call = value.as<Halide::Internal::Call>();
  const bool open = call != nullptr && (call->call_type == Halide::Internal::Call::Image ||
                                        call->call_type == Halide::Internal::Call::Halide);
  const bool hides = value.type().is_float() && !open && !Halide::Internal::is_const(value);
  return hides ? Hidden(value) : value;
}

// Halide's own copies its operand, once for every time that a node of it is used.
Expr IsNan(const Expr& value) {
  const char* name = value.type().bits() == 32 ? "is_nan_f32" : "is_nan_f64";
  return Halide::Internal::Call::make(Halide::Bool(value.type().lanes()), name, {Undecided(value)},
                                      Halide::Internal::Call::PureExtern);
}

// Halide makes one cast of two, and of f64 -> f32 -> f16, also where the first is in another stage,
// a single rounding for which there is no instruction.
Expr ToHalf(const Expr& value) { return cast(Halide::Float(16), Hidden(value)); }

Expr Abs(const Expr& value) {
  const Type type = value.type();
  if (type.is_uint()) return value;
  if (type.is_float()) {
    const Expr bits = FloatBits(value);
    return reinterpret(type, bits & (SignBit(bits.type()) - 1));
  }
  const Expr bits = AsUnsigned(value);
  return WithType(select(value < Number(type, 0), Number(bits.type(), 0) - bits, bits), type);
}

Expr Neg(const Expr& value) {
  const Expr bits = AsUnsigned(value);
  if (value.type().is_float()) return reinterpret(value.type(), bits ^ SignBit(bits.type()));
  return WithType(Number(bits.type(), 0) - bits, value.type());
}

Expr Sign(const Expr& value) {
  const Type type = value.type();
  const Expr zero = Number(type, 0), one = Number(type, 1);
  if (type.is_uint()) return select(value == zero, zero, one);
  // NaN and zeros, which keep their sign, are neither above nor below zero.
  return select(value > zero, one, value < zero, Number(type, -1), value);
}

// Halide walks expressions as trees here and there: operands that stand in several places get a
// name, or a chain of n of these would be 3^n long.
template <typename Formula>
Expr WithNames(const Expr& a, const Expr& b, Formula&& formula) {
  using Halide::Internal::Let;
  using Halide::Internal::Variable;
  const std::string first = Halide::Internal::unique_name('p');
  const std::string second = Halide::Internal::unique_name('p');
  const Expr body = formula(Variable::make(a.type(), first), Variable::make(b.type(), second));
  return Let::make(first, a, Let::make(second, b, body));
}

Expr Greater(const Expr& a, const Expr& b) { return select(a > b, a, b); }

Expr Larger(const Expr& a, const Expr& b) {
  const Expr greater = Greater(a, b);
  return a.type().is_float() ? select(IsNan(a), a, greater) : greater;
}

Expr Smaller(const Expr& a, const Expr& b) {
  const Expr smaller = select(a < b, a, b);
  return a.type().is_float() ? select(IsNan(a), a, smaller) : smaller;
}

Expr Max(const Expr& a, const Expr& b) { return WithNames(a, b, Larger); }
Expr Min(const Expr& a, const Expr& b) { return WithNames(a, b, Smaller); }

// Halide takes a <= b to be !(b < a), which is true of NaN.
Expr LessOrEqual(const Expr& a, const Expr& b) {
  return a.type().is_float() ? a < b || a == b : a <= b;
}

// Halide refuses to divide by what it finds to be zero.
Expr Divide(const Expr& a, const Expr& b) {
  const bool is_number = Halide::Internal::is_const(b) && !Halide::Internal::is_const_zero(b);
  return a / (is_number ? b : Hidden(b));
}

// C's division or remainder of integers, with x / 0 = x % 0 = 0 and wrapping.
Expr DivMod(const Expr& a, const Expr& b, bool quotient) {
  const Type type = a.type();
  const Expr ua = AsUnsigned(Abs(a)), ub = AsUnsigned(Abs(b));
  const Expr zero = Number(ua.type(), 0);
  const Expr divisor = select(ub == zero, Number(ua.type(), 1), ub);
  const Expr magnitude = select(ub == zero, zero, quotient ? ua / divisor : ua % divisor);
  if (type.is_uint()) return magnitude;
  const Expr negative = a < Number(type, 0);
  const Expr flip = quotient ? negative != (b < Number(type, 0)) : negative;
  return WithType(select(flip, zero - magnitude, magnitude), type);
}

Expr Shift(const Expr& a, const Expr& b, bool left) {
  const Type type = a.type();
  const Expr amount = AsUnsigned(b);
  const Expr most = Number(amount.type(), type.bits() - 1);
  const Expr inside = amount <= most;
  const Expr by = select(inside, amount, most);
  if (left) return WithType(select(inside, AsUnsigned(a) << by, Number(amount.type(), 0)), type);
  if (type.is_int()) return a >> by;  // by bits - 1 only the sign is left
  return select(inside, a >> by, Number(type, 0));
}

Expr Arithmetic(ScalarOp op, const Expr& a, const Expr& b) {
  const Expr x = a.type().is_float() ? a : AsUnsigned(a);
  const Expr y = a.type().is_float() ? b : AsUnsigned(b);
  const Expr result = op == ScalarOp::kAdd ? x + y : op == ScalarOp::kSub ? x - y : x * y;
  return WithType(result, a.type());
}

Expr Bits(ScalarOp op, const Expr& a, const Expr& b) {
  if (a.type().is_bool()) {
    return op == ScalarOp::kAnd ? a && b : op == ScalarOp::kOr ? a || b : a != b;
  }
  return op == ScalarOp::kAnd ? a & b : op == ScalarOp::kOr ? a | b : a ^ b;
}

Expr RoundBFloat(const Expr& value) {
  const Expr bits = reinterpret<uint32_t>(value);
  const Expr even = (bits >> 16) & Expr(uint32_t{1});
  const Expr rounded = (bits + (even + Expr(uint32_t{0x7fff}))) >> 16;
  const Expr quiet = (bits >> 16) | Expr(uint32_t{0x40});
  return cast<uint16_t>(select(IsNan(value), quiet, rounded));
}

Expr FromBFloat(const Expr& bits) {
  return reinterpret<float>(cast<uint32_t>(bits) << Expr(uint32_t{16}));
}

// Truncates, saturates, and makes NaN 0. Only values that fit are handed to the machine's
// conversion.
Expr FloatToInt(const Expr& given, Type to) {
  const Expr value = Undecided(given);
  const Type from = value.type();
  const double above = std::ldexp(1.0, to.is_uint() ? to.bits() : to.bits() - 1);
  const double least = to.is_uint() ? 0.0 : -above;
  const Expr low = Halide::Internal::make_const(from, least);
  const Expr high = Halide::Internal::make_const(from, above);
  const Expr zero = Number(to, 0);
  // Vector units convert to 32 bits. All values of narrower types are floats, so that the ends are
  // cut off before; these forms are one instruction each.
  if (to.bits() < 32 && from.bits() >= 32) {
    const Expr most = Halide::Internal::make_const(from, above - 1);
    const Expr number = to.is_uint() ? value : select(IsNan(value), Number(from, 0), value);
    const Expr raised = select(number > low, number, low);
    const Expr whole = cast<int32_t>(select(raised < most, raised, most));
    // Without the mask Halide would make one conversion of this and of any that follows.
    const Type bits = to.with_code(Type::UInt);
    return WithType(cast(bits, whole & ((1 << to.bits()) - 1)), to);
  }
  const Expr safe = select(value > low && value < high, value, Number(from, 0));
  const Expr exact = cast(to, safe);
  return select(value > low, select(value < high, exact, to.max()),
                select(IsNan(value), zero, to.min()));
}

Expr Rounded(ScalarOp op, const Expr& a) {
  if (!a.type().is_float()) return a;
  // Halide's own cut 512-bit vectors into halves.
  const std::string type = a.type().bits() == 32 ? ".f32" : ".f64";
  const char* name = op == ScalarOp::kFloor   ? "llvm.floor"
                     : op == ScalarOp::kCeil  ? "llvm.ceil"
                     : op == ScalarOp::kTrunc ? "llvm.trunc"
                                              : "llvm.roundeven";
  return Halide::Internal::Call::make(a.type(), name + type, {a},
                                      Halide::Internal::Call::PureExtern);
}

}  // namespace

Type ValueType(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return Halide::Float(32);
    case DType::kF64:
      return Halide::Float(64);
    case DType::kI8:
      return Halide::Int(8);
    case DType::kI16:
      return Halide::Int(16);
    case DType::kI32:
      return Halide::Int(32);
    case DType::kI64:
      return Halide::Int(64);
    case DType::kU8:
      return Halide::UInt(8);
    case DType::kU16:
      return Halide::UInt(16);
    case DType::kU32:
      return Halide::UInt(32);
    case DType::kU64:
      return Halide::UInt(64);
    case DType::kBool:
      return Halide::Bool();
  }
  return Halide::Type();
}

Type StorageType(DType type) {
  switch (type) {
    case DType::kF16:
      return Halide::Float(16);
    case DType::kBF16:
      return Halide::UInt(16);
    case DType::kBool:
      return Halide::UInt(8);
    default:
      return ValueType(type);
  }
}

Expr FromStorage(const Expr& stored, DType type) {
  switch (type) {
    case DType::kF16:
      return cast<float>(stored);
    case DType::kBF16:
      return FromBFloat(stored);
    case DType::kBool:
      return stored != Expr(uint8_t{0});
    default:
      return stored;
  }
}

Expr ToStorage(const Expr& value, DType type) {
  switch (type) {
    case DType::kF16:
      return ToHalf(value);
    case DType::kBF16:
      return RoundBFloat(value);
    case DType::kBool:
      return select(value, Expr(uint8_t{1}), Expr(uint8_t{0}));
    default:
      return value;
  }
}

Expr Constant(DType type, uint64_t bits) {
  const Type value_type = ValueType(type);
  if (!value_type.is_float()) {
    return type == DType::kBool ? Halide::Internal::make_bool(bits != 0)
           : value_type.is_uint()
               ? Halide::Internal::make_const(value_type,
                                              bits & (~uint64_t{0} >> (64 - value_type.bits())))
               : Halide::Internal::make_const(value_type, static_cast<int64_t>(bits));
  }
  const double value = value_type.bits() == 32 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                                               : std::bit_cast<double>(bits);
  // Halide's literals are numbers; what is more than that goes by its bits.
  if (std::isfinite(value) && !(value == 0 && std::signbit(value))) {
    return Halide::Internal::make_const(value_type, value);
  }
  return value_type.bits() == 32 ? reinterpret<float>(Expr(static_cast<uint32_t>(bits)))
                                 : reinterpret<double>(Expr(bits));
}

Expr Convert(const Expr& value, DType from, DType to) {
  const Type source = ValueType(from), target = ValueType(to);
  if (source == target) return value;
  if (target.is_bool()) return value != Number(source, 0);
  if (source.is_bool()) return select(value, Number(target, 1), Number(target, 0));
  if (source.is_float() && !target.is_float()) return FloatToInt(value, target);
  if (target.is_float()) return cast(target, value);
  // Widening extends by the sign of the source; narrowing wraps.
  return WithType(cast(target.with_code(Type::UInt), value), target);
}

Expr Primitive(const ExprNode& node, const Expr args[3], DType from) {
  const Expr &a = args[0], &b = args[1], &c = args[2];
  switch (node.op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
      return Arithmetic(node.op, a, b);
    case ScalarOp::kDiv:
      return a.type().is_float() ? Divide(a, b) : DivMod(a, b, /*quotient=*/true);
    case ScalarOp::kMod:
      return DivMod(a, b, /*quotient=*/false);
    case ScalarOp::kFma:
      if (a.type().is_float()) return Fma(a, b, c);
      return Arithmetic(ScalarOp::kAdd, Arithmetic(ScalarOp::kMul, a, b), c);
    case ScalarOp::kNeg:
      return Neg(a);
    case ScalarOp::kAbs:
      return Abs(a);
    case ScalarOp::kSign:
      return Sign(a);
    case ScalarOp::kMin:
      return Min(a, b);
    case ScalarOp::kMax:
      return Max(a, b);
    case ScalarOp::kSqrt:
      return Halide::sqrt(a);
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kRound:
    case ScalarOp::kTrunc:
      return Rounded(node.op, a);
    case ScalarOp::kEq:
      return Undecided(a) == Undecided(b);
    case ScalarOp::kNe:
      return !(Undecided(a) == Undecided(b));
    case ScalarOp::kLt:
      return Undecided(a) < Undecided(b);
    case ScalarOp::kLe:
      return LessOrEqual(Undecided(a), Undecided(b));
    case ScalarOp::kIsNan:
      return a.type().is_float() ? IsNan(a) : Halide::Internal::const_false();
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      return Bits(node.op, a, b);
    case ScalarOp::kNot:
      return a.type().is_bool() ? !a : ~a;
    case ScalarOp::kShl:
      return Shift(a, b, /*left=*/true);
    case ScalarOp::kShr:
      return Shift(a, b, /*left=*/false);
    case ScalarOp::kSelect:
    case ScalarOp::kGuard:
      return select(a, b, c);
    case ScalarOp::kCast:
      return Convert(a, from, node.type);
    case ScalarOp::kBitcast:
      return WithType(a, ValueType(node.type));
    case ScalarOp::kRoundTo:
      return FromStorage(ToStorage(a, node.aux), node.aux);
    default:
      return Expr();
  }
}

Expr Accumulate(ReduceOp op, DType type, const Expr& acc, const Expr& element) {
  const bool logical = type == DType::kBool;
  switch (op) {
    case ReduceOp::kAdd:
      return logical ? acc | element : Arithmetic(ScalarOp::kAdd, acc, element);
    case ReduceOp::kMul:
      return logical ? acc & element : Arithmetic(ScalarOp::kMul, acc, element);
    case ReduceOp::kMax:
      return logical ? acc | element : Max(acc, element);
    case ReduceOp::kMin:
      return logical ? acc & element : Min(acc, element);
    case ReduceOp::kAnd:
      return acc & element;
    case ReduceOp::kOr:
      return acc | element;
    case ReduceOp::kGreatest:
      return WithNames(acc, element, Greater);
  }
  return Expr();
}

Expr StartValue(ReduceOp op, DType type) {
  const uint64_t bits = Identity(op, type);
  return type == DType::kBool ? Expr(static_cast<uint8_t>(bits)) : Constant(type, bits);
}

}  // namespace kiln
