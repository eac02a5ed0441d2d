// SPDX-License-Identifier: Apache-2.0
#include "kernel/eval.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace kiln {
namespace {

template <typename T>
T FromBits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
uint64_t ToBits(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return value;
  }
}

// Calls fn with a value of the C++ type of `type`.
template <typename Fn>
auto WithType(DType type, Fn&& fn) {
  switch (type) {
    case DType::kF64:
      return fn(double{});
    case DType::kI8:
      return fn(int8_t{});
    case DType::kI16:
      return fn(int16_t{});
    case DType::kI32:
      return fn(int32_t{});
    case DType::kI64:
      return fn(int64_t{});
    case DType::kU8:
      return fn(uint8_t{});
    case DType::kU16:
      return fn(uint16_t{});
    case DType::kU32:
      return fn(uint32_t{});
    case DType::kU64:
      return fn(uint64_t{});
    case DType::kBool:
      return fn(bool{});
    default:
      return fn(float{});
  }
}

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

template <typename T>
T FloatArithmetic(ScalarOp op, T a, T b, T c) {
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
      return 0;
  }
}

template <typename T>
T Shift(ScalarOp op, T a, T amount) {
  constexpr int kBits = 8 * sizeof(T);
  const bool inside = amount >= 0 && static_cast<uint64_t>(amount) < kBits;
  if (op == ScalarOp::kShr)
    return inside ? static_cast<T>(a >> amount) : static_cast<T>(a < 0 ? -1 : 0);
  return inside ? static_cast<T>(static_cast<uint64_t>(a) << amount) : T{0};
}

// Wraps: computed in uint64_t and cut to T.
template <typename T>
T IntArithmetic(ScalarOp op, T a, T b) {
  const auto ua = static_cast<uint64_t>(static_cast<int64_t>(a));
  const auto ub = static_cast<uint64_t>(static_cast<int64_t>(b));
  const bool overflows = std::is_signed_v<T> && b == static_cast<T>(-1);
  switch (op) {
    case ScalarOp::kAdd:
      return static_cast<T>(ua + ub);
    case ScalarOp::kSub:
      return static_cast<T>(ua - ub);
    case ScalarOp::kMul:
      return static_cast<T>(ua * ub);
    case ScalarOp::kDiv:
      return b == 0 ? T{0} : overflows ? static_cast<T>(0 - ua) : static_cast<T>(a / b);
    case ScalarOp::kMod:
      return b == 0 || overflows ? T{0} : static_cast<T>(a % b);
    case ScalarOp::kNeg:
      return static_cast<T>(0 - ua);
    case ScalarOp::kAbs:
      return a < 0 ? static_cast<T>(0 - ua) : a;
    case ScalarOp::kAnd:
      return static_cast<T>(ua & ub);
    case ScalarOp::kOr:
      return static_cast<T>(ua | ub);
    case ScalarOp::kXor:
      return static_cast<T>(ua ^ ub);
    case ScalarOp::kNot:
      return static_cast<T>(~ua);
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return Shift(op, a, b);
    default:
      return 0;
  }
}

bool BoolLogic(ScalarOp op, bool a, bool b) {
  switch (op) {
    case ScalarOp::kAnd:
      return a && b;
    case ScalarOp::kOr:
      return a || b;
    case ScalarOp::kXor:
      return a != b;
    default:
      return !a;
  }
}

template <typename T>
T Arithmetic(ScalarOp op, T a, T b, T c) {
  if constexpr (std::is_same_v<T, bool>) {
    return BoolLogic(op, a, b);
  } else {
    if (op == ScalarOp::kMax) return IsNan(a) || a > b ? a : b;
    if (op == ScalarOp::kMin) return IsNan(a) || a < b ? a : b;
    if (op == ScalarOp::kSign) return a > 0 ? T{1} : a < 0 ? static_cast<T>(-1) : a;
    if constexpr (std::is_floating_point_v<T>) {
      return FloatArithmetic(op, a, b, c);
    } else {
      return IntArithmetic(op, a, b);
    }
  }
}

template <typename T>
bool Compare(ScalarOp op, T a, T b) {
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
      return IsNan(a);
  }
}

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    const double wide = std::trunc(static_cast<double>(value));
    // The limits rounded to double: at or above max + 1 saturates; below that the conversion is
    // exact.
    if (wide >= std::ldexp(1.0, std::numeric_limits<To>::digits))
      return std::numeric_limits<To>::max();
    if (wide <= static_cast<double>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(wide);
  } else {
    return static_cast<To>(value);
  }
}

uint64_t CastBits(DType from, DType to, uint64_t bits) {
  return WithType(from, [&](auto f) {
    using From = decltype(f);
    return WithType(to, [&](auto t) { return ToBits(Convert<decltype(t)>(FromBits<From>(bits))); });
  });
}

uint64_t RoundTo(DType type, uint64_t bits) {
  const auto value = FromBits<float>(bits);
  return ToBits(type == DType::kF16 ? HalfToFloat(FloatToHalf(value))
                                    : BFloatToFloat(FloatToBFloat(value)));
}

uint64_t Bitcast(DType to, uint64_t bits) {
  return WithType(to, [&](auto t) { return ToBits(FromBits<decltype(t)>(bits)); });
}

uint64_t EvalNode(const ScalarExpr& expr, const ExprNode& node, const uint64_t* values) {
  uint64_t a[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (node.args[i] >= 0) a[i] = values[node.args[i]];
  }
  const DType from = expr.node(node.args[0]).type;
  switch (node.op) {
    case ScalarOp::kSelect:
    case ScalarOp::kGuard:
      return a[0] != 0 ? a[1] : a[2];
    case ScalarOp::kCast:
      return CastBits(from, node.type, a[0]);
    case ScalarOp::kBitcast:
      return Bitcast(node.type, a[0]);
    case ScalarOp::kAddAt:
      return a[0];
    case ScalarOp::kRoundTo:
      return RoundTo(node.aux, a[0]);
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kIsNan:
      return WithType(from, [&](auto t) -> uint64_t {
        using T = decltype(t);
        return Compare(node.op, FromBits<T>(a[0]), FromBits<T>(a[1])) ? 1 : 0;
      });
    default:
      return WithType(node.type, [&](auto t) {
        using T = decltype(t);
        return ToBits(Arithmetic(node.op, FromBits<T>(a[0]), FromBits<T>(a[1]), FromBits<T>(a[2])));
      });
  }
}

}  // namespace

uint64_t EvalScalar(const ScalarExpr& expr, LeafFn leaf, std::vector<uint64_t>& scratch) {
  scratch.resize(expr.nodes().size());
  for (ExprId id = 0; id <= expr.root(); ++id) {
    const ExprNode& node = expr.node(id);
    const auto at = static_cast<size_t>(id);
    if (node.op == ScalarOp::kConst) {
      scratch[at] = node.imm;
    } else if (Info(node.op).arity == 0) {
      scratch[at] = leaf(id, scratch.data());
    } else {
      scratch[at] = EvalNode(expr, node, scratch.data());
    }
  }
  return scratch[static_cast<size_t>(expr.root())];
}

uint64_t Combine(ReduceOp op, DType type, uint64_t a, uint64_t b) {
  constexpr ScalarOp kOps[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMax,
                               ScalarOp::kMin, ScalarOp::kAnd, ScalarOp::kOr};
  return WithType(type, [&](auto t) {
    using T = decltype(t);
    if (op == ReduceOp::kGreatest) return FromBits<T>(a) > FromBits<T>(b) ? a : b;
    return ToBits(Arithmetic(kOps[static_cast<size_t>(op)], FromBits<T>(a), FromBits<T>(b), T{}));
  });
}

uint64_t Identity(ReduceOp op, DType type) {
  return WithType(type, [&](auto t) -> uint64_t {
    using T = decltype(t);
    using Limits = std::numeric_limits<T>;
    switch (op) {
      case ReduceOp::kAdd:
        return IsFloat(type) ? ToBits(static_cast<T>(-0.0)) : 0;
      case ReduceOp::kMul:
        return ToBits(static_cast<T>(1));
      case ReduceOp::kMax:
      case ReduceOp::kGreatest:
        return ToBits(Limits::has_infinity ? static_cast<T>(-Limits::infinity())
                                           : Limits::lowest());
      case ReduceOp::kMin:
        return ToBits(Limits::has_infinity ? Limits::infinity() : Limits::max());
      case ReduceOp::kAnd:
        return type == DType::kBool ? 1 : ToBits(static_cast<T>(~uint64_t{0}));
      default:
        return 0;
    }
  });
}

}  // namespace kiln
