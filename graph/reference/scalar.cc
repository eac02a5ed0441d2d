// SPDX-License-Identifier: Apache-2.0
#include "graph/reference/scalar.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/tensors.h"

namespace kiln::reference {
namespace {

using Wide = long double;

double Function(ScalarOp op, double a, double b) {
  const Wide x = a;
  switch (op) {
    case ScalarOp::kExp:
      return static_cast<double>(std::exp(x));
    case ScalarOp::kLog:
      return static_cast<double>(std::log(x));
    case ScalarOp::kTanh:
      return static_cast<double>(std::tanh(x));
    case ScalarOp::kErf:
      return static_cast<double>(std::erf(x));
    case ScalarOp::kErfc:
      return static_cast<double>(std::erfc(x));
    case ScalarOp::kSigmoid:
      return static_cast<double>(1 / (1 + std::exp(-x)));
    case ScalarOp::kRsqrt:
      return static_cast<double>(1 / std::sqrt(x));
    case ScalarOp::kPow:
      return static_cast<double>(std::pow(x, static_cast<Wide>(b)));
    case ScalarOp::kSin:
      return static_cast<double>(std::sin(x));
    case ScalarOp::kCos:
      return static_cast<double>(std::cos(x));
    case ScalarOp::kTan:
      return static_cast<double>(std::tan(x));
    case ScalarOp::kAsin:
      return static_cast<double>(std::asin(x));
    case ScalarOp::kAcos:
      return static_cast<double>(std::acos(x));
    case ScalarOp::kAtan:
      return static_cast<double>(std::atan(x));
    case ScalarOp::kSinh:
      return static_cast<double>(std::sinh(x));
    case ScalarOp::kCosh:
      return static_cast<double>(std::cosh(x));
    case ScalarOp::kAsinh:
      return static_cast<double>(std::asinh(x));
    case ScalarOp::kAcosh:
      return static_cast<double>(std::acosh(x));
    case ScalarOp::kAtanh:
      return static_cast<double>(std::atanh(x));
    case ScalarOp::kExp2:
      return static_cast<double>(std::exp2(x));
    case ScalarOp::kExpm1:
      return static_cast<double>(std::expm1(x));
    case ScalarOp::kLog2:
      return static_cast<double>(std::log2(x));
    case ScalarOp::kLog1p:
      return static_cast<double>(std::log1p(x));
    case ScalarOp::kFmod:
      return std::fmod(a, b);
    case ScalarOp::kCbrt:
      return static_cast<double>(std::cbrt(x));
    case ScalarOp::kSoftplus:
      return static_cast<double>(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double FloatOp(ScalarOp op, double a, double b, double c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kFma:
      return std::fma(a, b, c);
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kSign:
      return std::isnan(a) || a == 0 ? a : std::copysign(1.0, a);
    case ScalarOp::kMin:
      return std::isnan(a) || a < b ? a : b;
    case ScalarOp::kMax:
      return std::isnan(a) || a > b ? a : b;
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kCeil:
      return std::ceil(a);
    case ScalarOp::kRound:
      return std::nearbyint(a);
    case ScalarOp::kTrunc:
      return std::trunc(a);
    default:
      return Function(op, a, b);
  }
}

bool FloatCompare(ScalarOp op, double a, double b) {
  switch (op) {
    case ScalarOp::kEq:
      return a == b;
    case ScalarOp::kNe:
      return a != b;
    case ScalarOp::kLt:
      return a < b;
    case ScalarOp::kLe:
      return a <= b;
    default:
      return std::isnan(a);
  }
}

bool IsUnsigned(DType type) { return !IsFloat(type) && !IsSigned(type); }

bool Less(DType type, int64_t a, int64_t b) {
  return IsUnsigned(type) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

int64_t Divide(DType type, int64_t a, int64_t b, bool remainder) {
  if (b == 0) return 0;
  if (IsUnsigned(type)) {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(remainder ? x % y : x / y);
  }
  if (b == -1) return remainder ? 0 : static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return remainder ? a % b : a / b;
}

int64_t Shift(DType type, int64_t a, int64_t by, bool left) {
  const auto bits = static_cast<int64_t>(8 * SizeOf(type));
  const bool outside = by < 0 || by >= bits;
  if (left) return outside ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
  if (IsUnsigned(type)) return outside ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) >> by);
  return outside ? (a < 0 ? -1 : 0) : a >> by;
}

// Philox2x32-10 as its paper has it: words and keys of 32 bits.
int64_t Philox(uint64_t counter, uint32_t key) {
  auto low = static_cast<uint32_t>(counter), high = static_cast<uint32_t>(counter >> 32);
  for (int round = 0; round < 10; ++round, key += 0x9E3779B9U) {
    const uint64_t product = uint64_t{0xD256D193U} * low;
    low = static_cast<uint32_t>(product >> 32) ^ key ^ high;
    high = static_cast<uint32_t>(product);
  }
  return static_cast<int64_t>(low | uint64_t{high} << 32);
}

int64_t IntOp(ScalarOp op, DType type, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case ScalarOp::kAdd:
      return static_cast<int64_t>(x + y);
    case ScalarOp::kSub:
      return static_cast<int64_t>(x - y);
    case ScalarOp::kMul:
      return static_cast<int64_t>(x * y);
    case ScalarOp::kDiv:
      return Divide(type, a, b, false);
    case ScalarOp::kMod:
      return Divide(type, a, b, true);
    case ScalarOp::kNeg:
      return static_cast<int64_t>(0 - x);
    case ScalarOp::kAbs:
      return Less(type, a, 0) ? static_cast<int64_t>(0 - x) : a;
    case ScalarOp::kSign:
      return Less(type, a, 0) ? -1 : (a != 0 ? 1 : 0);
    case ScalarOp::kMin:
      return Less(type, a, b) ? a : b;
    case ScalarOp::kMax:
      return Less(type, b, a) ? a : b;
    case ScalarOp::kAnd:
      return a & b;
    case ScalarOp::kOr:
      return a | b;
    case ScalarOp::kXor:
      return a ^ b;
    case ScalarOp::kNot:
      return type == DType::kBool ? 1 - a : ~a;
    case ScalarOp::kShl:
      return Shift(type, a, b, true);
    case ScalarOp::kShr:
      return Shift(type, a, b, false);
    case ScalarOp::kPhilox:
      return Philox(x, static_cast<uint32_t>(y));
    default:
      return a;  // floor, ceil, round, trunc of a whole number
  }
}

bool IntCompare(ScalarOp op, DType type, int64_t a, int64_t b) {
  switch (op) {
    case ScalarOp::kEq:
      return a == b;
    case ScalarOp::kNe:
      return a != b;
    case ScalarOp::kLt:
      return Less(type, a, b);
    case ScalarOp::kLe:
      return !Less(type, b, a);
    default:
      return false;
  }
}

int64_t FloatToInt(double x, DType type) {
  if (std::isnan(x)) return 0;
  const auto bits = static_cast<int>(8 * SizeOf(type));
  if (IsUnsigned(type)) {
    if (x <= 0) return 0;
    if (x >= std::ldexp(1.0, bits)) return Wrap(type, -1);
    return static_cast<int64_t>(static_cast<uint64_t>(x));
  }
  const double limit = std::ldexp(1.0, bits - 1);
  if (x >= limit) return static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (x <= -limit) return -static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) - 1;
  return static_cast<int64_t>(x);
}

Element CastTo(Element x, DType from, DType to) {
  Element out;
  if (to == DType::kBool) {
    out.i = IsFloat(from) ? x.f != 0 : x.i != 0;
  } else if (IsFloat(to)) {
    out.f = IsFloat(from)         ? x.f
            : from == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(x.i))
                                  : static_cast<double>(x.i);
  } else {
    out.i = IsFloat(from) ? FloatToInt(x.f, to) : Wrap(to, x.i);
  }
  return out;
}

}  // namespace

int64_t Wrap(DType type, int64_t value) {
  switch (type) {
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kU16:
      return static_cast<uint16_t>(value);
    case DType::kU32:
      return static_cast<uint32_t>(value);
    case DType::kBool:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

absl::Status CheckScalar(const ScalarExpr& expr) {
  for (const ExprNode& node : expr.nodes()) {
    switch (node.op) {
      case ScalarOp::kParam:
      case ScalarOp::kIndex:
      case ScalarOp::kExtent:
      case ScalarOp::kBitcast:
        return absl::UnimplementedError(
            absl::StrCat("the interpreter has no meaning for \"", Info(node.op).name, "\""));
      default:
        break;
    }
  }
  return absl::OkStatus();
}

Element EvaluateScalar(const ScalarExpr& expr, std::span<const Element> inputs,
                       std::span<Element> scratch) {
  const std::vector<ExprNode>& nodes = expr.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ExprNode& node = nodes[i];
    const auto arg = [&](int k) {
      return node.args[k] < 0 ? Element{} : scratch[static_cast<size_t>(node.args[k])];
    };
    const DType from = node.args[0] < 0 ? node.type : nodes[static_cast<size_t>(node.args[0])].type;
    Element& out = scratch[i];
    switch (node.op) {
      case ScalarOp::kConst:
        if (IsFloat(node.type)) {
          out.f = ConstValue(node.type, node.imm);
        } else {
          out.i = static_cast<int64_t>(node.imm);
        }
        break;
      case ScalarOp::kRead:
        out = inputs[static_cast<size_t>(node.ref)];
        break;
      case ScalarOp::kEq:
      case ScalarOp::kNe:
      case ScalarOp::kLt:
      case ScalarOp::kLe:
      case ScalarOp::kIsNan:
        out.i = IsFloat(from) ? FloatCompare(node.op, arg(0).f, arg(1).f)
                              : IntCompare(node.op, from, arg(0).i, arg(1).i);
        break;
      case ScalarOp::kSelect:
      case ScalarOp::kGuard:
        out = arg(0).i != 0 ? arg(1) : arg(2);
        break;
      case ScalarOp::kCast:
        out = CastTo(arg(0), from, node.type);
        break;
      case ScalarOp::kRoundTo:
        out.f = RoundTo(arg(0).f, node.aux);
        break;
      default:
        if (IsFloat(node.type)) {
          out.f = FloatOp(node.op, arg(0).f, arg(1).f, arg(2).f);
        } else {
          out.i = Wrap(node.type, IntOp(node.op, node.type, arg(0).i, arg(1).i));
        }
    }
  }
  return scratch[static_cast<size_t>(expr.root())];
}

Element Combine(ReduceOp op, DType type, Element acc, Element x) {
  constexpr ScalarOp kOps[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMax,
                               ScalarOp::kMin, ScalarOp::kAnd, ScalarOp::kOr};
  const ScalarOp scalar = kOps[static_cast<size_t>(op)];
  Element out;
  if (IsFloat(type)) {
    out.f = FloatOp(scalar, acc.f, x.f, 0);
  } else {
    out.i = Wrap(type, IntOp(scalar, type, acc.i, x.i));
  }
  return out;
}

Element IdentityOf(ReduceOp op, DType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  Element out;
  if (IsFloat(type)) {
    out.f = op == ReduceOp::kMul   ? 1
            : op == ReduceOp::kMax ? -infinity
            : op == ReduceOp::kMin ? infinity
                                   : 0;
    return out;
  }
  const auto top = uint64_t{1} << (8 * SizeOf(type) - 1);
  const int64_t least = IsSigned(type) ? Wrap(type, static_cast<int64_t>(top)) : 0;
  const int64_t greatest = IsSigned(type) ? static_cast<int64_t>(top - 1) : Wrap(type, -1);
  switch (op) {
    case ReduceOp::kMul:
      out.i = 1;
      break;
    case ReduceOp::kMax:
      out.i = least;
      break;
    case ReduceOp::kMin:
      out.i = greatest;
      break;
    case ReduceOp::kAnd:
      out.i = Wrap(type, -1);
      break;
    default:
      out.i = 0;
  }
  return out;
}

}  // namespace kiln::reference
