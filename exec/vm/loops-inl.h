// SPDX-License-Identifier: Apache-2.0
// The meaning of every primitive for one element, and loops over it that the compiler vectorises.
// Included once per instruction set by ops.cc, inside its namespace; that is why there is no
// ordinary guard.
#if defined(KILN_EXEC_VM_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KILN_EXEC_VM_LOOPS_INL_H_
#undef KILN_EXEC_VM_LOOPS_INL_H_
#else
#define KILN_EXEC_VM_LOOPS_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "exec/vm/ops.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {

template <typename T>
inline constexpr bool kFloat = std::is_floating_point_v<T>;

// The unsigned type of T's size; a floating-point type itself.
template <typename T>
using Signless =
    typename std::conditional_t<kFloat<T>, std::type_identity<T>, std::make_unsigned<T>>::type;

// The type in which arithmetic on T wraps.
template <typename T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t, Signless<T>>;

struct Add {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
};
struct Sub {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
  }
};
struct Mul {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct Div {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kFloat<T>) {
      return a / b;
    } else if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
      return b == 0 ? T{0} : static_cast<T>(a / b);
    } else {
      return b == 0 ? T{0} : static_cast<T>(a / b);
    }
  }
};
struct Mod {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kFloat<T>) {
      return std::fmod(a, b);
    } else if constexpr (std::is_signed_v<T>) {
      return b == 0 || b == -1 ? T{0} : static_cast<T>(a % b);
    } else {
      return b == 0 ? T{0} : static_cast<T>(a % b);
    }
  }
};
struct Fma {
  template <typename T>
  static T Do(T a, T b, T c) {
    if constexpr (kFloat<T>) {
      return std::fma(a, b, c);
    } else {
      return Add::Do(Mul::Do(a, b), c);
    }
  }
};
struct Neg {
  template <typename T>
  static T Do(T a) {
    if constexpr (kFloat<T>) return -a;
    return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
  }
};
struct Abs {
  template <typename T>
  static T Do(T a) {
    if constexpr (kFloat<T>) return std::fabs(a);
    return a < T{0} ? Neg::Do(a) : a;
  }
};
struct Sign {
  template <typename T>
  static T Do(T a) {
    return a > T{0} ? T{1} : a < T{0} ? static_cast<T>(-1) : a;
  }
};
struct IsNan {
  template <typename T>
  static uint8_t Do(T a) {
    return a != a;
  }
};
struct Max {
  template <typename T>
  static T Do(T a, T b) {
    return ((a != a) | (a > b)) ? a : b;
  }
};
struct Greatest {
  template <typename T>
  static T Do(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <typename T>
  static T Do(T a, T b) {
    return ((a != a) | (a < b)) ? a : b;
  }
};
struct Sqrt {
  template <typename T>
  static T Do(T a) {
    return std::sqrt(a);
  }
};
struct Floor {
  template <typename T>
  static T Do(T a) {
    return std::floor(a);
  }
};
struct Ceil {
  template <typename T>
  static T Do(T a) {
    return std::ceil(a);
  }
};
struct Round {
  template <typename T>
  static T Do(T a) {
    return std::nearbyint(a);
  }
};
struct Trunc {
  template <typename T>
  static T Do(T a) {
    return std::trunc(a);
  }
};
struct Eq {
  template <typename T>
  static uint8_t Do(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static uint8_t Do(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <typename T>
  static uint8_t Do(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  static uint8_t Do(T a, T b) {
    return a <= b;
  }
};
struct And {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  static T Do(T a) {
    return static_cast<T>(~a);
  }
};
struct NotBool {
  static uint8_t Do(uint8_t a) { return a ^ 1; }
};
struct Shl {
  template <typename T>
  static T Do(T a, T b) {
    constexpr std::make_unsigned_t<T> kBits = 8 * sizeof(T);  // correctness
    const auto by = static_cast<std::make_unsigned_t<T>>(b);
    return by >= kBits ? T{0} : static_cast<T>(static_cast<Wrap<T>>(a) << (by & (kBits - 1)));
  }
};
struct Shr {
  template <typename T>
  static T Do(T a, T b) {
    constexpr std::make_unsigned_t<T> kBits = 8 * sizeof(T);  // correctness
    const auto by = static_cast<std::make_unsigned_t<T>>(b);
    const T outside = a < T{0} ? static_cast<T>(-1) : T{0};
    return by >= kBits ? outside : static_cast<T>(a >> (by & (kBits - 1)));
  }
};

// ---- Loops. ivdep: a destination is an operand's own block or apart from it. The count is copied
// because a store of a byte might otherwise change it.

template <typename F, typename R, typename T>
void Map1(const OpArgs& x) {
  const size_t n = x.n;
  auto* dst = static_cast<R*>(x.dst);
  const auto* a = static_cast<const T*>(x.a);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = F::Do(a[i]);
}

template <typename F, typename R, typename T>
void Map2(const OpArgs& x) {
  const size_t n = x.n;
  auto* dst = static_cast<R*>(x.dst);
  const auto* a = static_cast<const T*>(x.a);
  const auto* b = static_cast<const T*>(x.b);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = F::Do(a[i], b[i]);
}

template <typename F, typename T>
void Map3(const OpArgs& x) {
  const size_t n = x.n;
  auto* dst = static_cast<T*>(x.dst);
  const auto* a = static_cast<const T*>(x.a);
  const auto* b = static_cast<const T*>(x.b);
  const auto* c = static_cast<const T*>(x.c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = F::Do(a[i], b[i], c[i]);
}

// dst = a ? b : c; T is an unsigned integer of the elements' size: bits are kept.
template <typename T>
void SelectLoop(const OpArgs& x) {
  const size_t n = x.n;
  auto* dst = static_cast<T*>(x.dst);
  const auto* a = static_cast<const uint8_t*>(x.a);
  const auto* b = static_cast<const T*>(x.b);
  const auto* c = static_cast<const T*>(x.c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const T yes = b[i], no = c[i];
    dst[i] = a[i] != 0 ? yes : no;
  }
}

template <typename F, typename T>
void LanesLoop(const OpArgs& x) {
  const size_t n = x.n;
  auto* dst = static_cast<T*>(x.dst);
  const auto* a = static_cast<const T*>(x.a);
  constexpr size_t kLanes = kReduceLanes;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC ivdep
    for (size_t l = 0; l < kLanes; ++l) dst[l] = F::Do(dst[l], a[i + l]);
  }
  for (size_t l = 0; i + l < n; ++l) dst[l] = F::Do(dst[l], a[i + l]);
}

template <typename F, typename T, size_t kWidth>
void Halve(T* lanes) {
#pragma GCC ivdep
  for (size_t l = 0; l < kWidth; ++l) lanes[l] = F::Do(lanes[l], lanes[l + kWidth]);
  if constexpr (kWidth > 1) Halve<F, T, kWidth / 2>(lanes);
}

template <typename F, typename T>
void FoldLoop(const OpArgs& x) {
  Halve<F, T, kReduceLanes / 2>(static_cast<T*>(x.dst));
}

template <typename F, typename T>
void SequenceLoop(const OpArgs& x) {
  const size_t n = x.n;
  const auto* a = static_cast<const T*>(x.a);
  T value = *static_cast<T*>(x.dst);
  for (size_t i = 0; i < n; ++i) value = F::Do(value, a[i]);
  *static_cast<T*>(x.dst) = value;
}

// Lanes past the end of a short row equal the identity, which changes nothing after it has met each
// element once: those folds are left out.
template <typename F, typename T>
void ShortRow(const T* a, size_t width, T identity, T* dst) {
  T lanes[kReduceLanes];
  for (size_t l = 0; l < width; ++l) lanes[l] = F::Do(identity, a[l]);
  for (size_t w = kReduceLanes / 2; w > 0; w /= 2) {
    for (size_t l = 0; l < w && l + w < width; ++l) lanes[l] = F::Do(lanes[l], lanes[l + w]);
    if (width > w) width = w;
  }
  *dst = lanes[0];
}

template <typename F, typename T, OpFn kLanes>
void RowsLoop(const OpArgs& x) {
  const size_t width = x.imm;
  const auto* a = static_cast<const T*>(x.a);
  auto* dst = static_cast<T*>(x.dst);
  const T identity = *static_cast<const T*>(x.b);
  alignas(64) T lanes[kReduceLanes], last[512 + kVectorElements];
  for (size_t at = 0; at < x.n; at += width, ++dst) {
    const T* row = a + at;
    if (width <= kReduceLanes / 4) {
      ShortRow<F, T>(row, width, identity, dst);
      continue;
    }
    if (at + width + kVectorElements > x.n) {  // a whole vector may end outside the operand
      for (size_t i = 0; i < width; ++i) last[i] = row[i];
      row = last;
    }
    for (size_t l = 0; l < kReduceLanes; ++l) lanes[l] = identity;
    kLanes({lanes, row, nullptr, nullptr, width, 0});
    FoldLoop<F, T>({lanes, nullptr, nullptr, nullptr, 0, 0});
    *dst = lanes[0];
  }
}

template <typename F, typename T>
constexpr ReduceFns ReduceLoops() {
  return {&LanesLoop<F, T>, &FoldLoop<F, T>, &SequenceLoop<F, T>, &Map2<F, T, T>,
          &RowsLoop<F, T, &LanesLoop<F, T>>};
}

// ---- Finding a loop.

// Where the sign of an integer does not matter to the bits of a result, the loop of Signless<T> is
// for both types.

template <typename T>
OpFn FindFloatOnly(ScalarOp op) {
  switch (op) {
    case ScalarOp::kSqrt:
      return &Map1<Sqrt, T, T>;
    case ScalarOp::kFloor:
      return &Map1<Floor, T, T>;
    case ScalarOp::kCeil:
      return &Map1<Ceil, T, T>;
    case ScalarOp::kRound:
      return &Map1<Round, T, T>;
    case ScalarOp::kTrunc:
      return &Map1<Trunc, T, T>;
    case ScalarOp::kIsNan:
      return &Map1<IsNan, uint8_t, T>;
    default:
      return nullptr;
  }
}

template <typename T>
OpFn FindBits(ScalarOp op) {
  using U = Signless<T>;
  switch (op) {
    case ScalarOp::kAnd:
      return &Map2<And, U, U>;
    case ScalarOp::kOr:
      return &Map2<Or, U, U>;
    case ScalarOp::kXor:
      return &Map2<Xor, U, U>;
    case ScalarOp::kNot:
      return &Map1<Not, U, U>;
    case ScalarOp::kShl:
      return &Map2<Shl, U, U>;
    case ScalarOp::kShr:
      return &Map2<Shr, T, T>;
    default:
      return nullptr;
  }
}

template <typename T>
OpFn FindLoop(ScalarOp op) {
  using U = Signless<T>;
  switch (op) {
    case ScalarOp::kAdd:
      return &Map2<Add, U, U>;
    case ScalarOp::kSub:
      return &Map2<Sub, U, U>;
    case ScalarOp::kMul:
      return &Map2<Mul, U, U>;
    case ScalarOp::kDiv:
      return &Map2<Div, T, T>;
    case ScalarOp::kMod:
      return &Map2<Mod, T, T>;
    case ScalarOp::kFma:
      return &Map3<Fma, U>;
    case ScalarOp::kNeg:
      return &Map1<Neg, U, U>;
    case ScalarOp::kAbs:
      return &Map1<Abs, T, T>;
    case ScalarOp::kSign:
      return &Map1<Sign, T, T>;
    case ScalarOp::kMin:
      return &Map2<Min, T, T>;
    case ScalarOp::kMax:
      return &Map2<Max, T, T>;
    case ScalarOp::kEq:
      return &Map2<Eq, uint8_t, U>;
    case ScalarOp::kNe:
      return &Map2<Ne, uint8_t, U>;
    case ScalarOp::kLt:
      return &Map2<Lt, uint8_t, T>;
    case ScalarOp::kLe:
      return &Map2<Le, uint8_t, T>;
    case ScalarOp::kSelect:
    case ScalarOp::kGuard:
      if constexpr (sizeof(T) == 1) return &SelectLoop<uint8_t>;
      if constexpr (sizeof(T) == 2) return &SelectLoop<uint16_t>;
      if constexpr (sizeof(T) == 4) return &SelectLoop<uint32_t>;
      return &SelectLoop<uint64_t>;
    default:
      if constexpr (kFloat<T>)
        return FindFloatOnly<T>(op);
      else
        return FindBits<T>(op);
  }
}

template <typename T>
ReduceFns FindReduce(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAdd:
      return ReduceLoops<Add, Signless<T>>();
    case ReduceOp::kMul:
      return ReduceLoops<Mul, Signless<T>>();
    case ReduceOp::kMax:
      return ReduceLoops<Max, T>();
    case ReduceOp::kGreatest:
      return ReduceLoops<Greatest, T>();
    case ReduceOp::kMin:
      return ReduceLoops<Min, T>();
    default:
      break;
  }
  if constexpr (!kFloat<T>)
    return op == ReduceOp::kAnd ? ReduceLoops<And, Signless<T>>() : ReduceLoops<Or, Signless<T>>();
  return {};
}

// Calls f with a value of the C++ type of `type`.
template <typename F>
auto WithType(DType type, F f) {
  switch (type) {
    case DType::kF64:
      return f(double{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
    case DType::kBool:
      return f(uint8_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    default:
      return f(float{});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
