// SPDX-License-Identifier: Apache-2.0
// Conversions between types, as loops that the compiler vectorises. Included once per instruction
// set by ops.cc.
#if defined(KILN_EXEC_VM_CASTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KILN_EXEC_VM_CASTS_INL_H_
#undef KILN_EXEC_VM_CASTS_INL_H_
#else
#define KILN_EXEC_VM_CASTS_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

#include "exec/vm/loops-inl.h"
#include "exec/vm/ops.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {

struct Bool {
  uint8_t v;
};

// Clamps before it converts, so that all of it is defined for every x and needs no branch.
template <typename To, typename From>
To Saturated(From x) {
  using Limits = std::numeric_limits<To>;
  constexpr From kLeast = static_cast<From>(Limits::min());  // zero or a power of two: exact
  const From above = x > kLeast ? x : kLeast;                // a NaN is the least now
  constexpr bool kExact = Limits::digits <= std::numeric_limits<From>::digits;
  if constexpr (kExact) {
    using Wide = std::conditional_t<(sizeof(To) < 4), int32_t, To>;
    constexpr From kMost = static_cast<From>(Limits::max());
    const From inside = above < kMost ? above : kMost;
    const To value = static_cast<To>(static_cast<Wide>(inside));
    return std::is_signed_v<To> && x != x ? To{0} : value;
  } else {
    constexpr To kHalf = Limits::max() / 2 + 1;                // correctness
    constexpr From kEnd = From{2} * static_cast<From>(kHalf);  // one past the largest
    constexpr From kLast = kEnd - kEnd * std::numeric_limits<From>::epsilon() / 2;
    const To value = static_cast<To>(above < kEnd ? above : kLast);
    const To most = x >= kEnd ? Limits::max() : value;
    return std::is_signed_v<To> && x != x ? To{0} : most;
  }
}

template <typename To, typename From>
To CastOne(From x) {
  if constexpr (std::is_same_v<From, Bool>) {
    if constexpr (std::is_same_v<To, Bool>)
      return x;
    else
      return static_cast<To>(x.v);
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(x != From{0})};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return Saturated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename To, typename From>
void CastLoop(const OpArgs& x) {
  const size_t n = x.n;
  auto* dst = static_cast<To*>(x.dst);
  const auto* a = static_cast<const From*>(x.a);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = CastOne<To>(a[i]);
}

// The loop of a cast. That of integers depends on the sign of the source only where it widens, and
// not on that of the result.
template <typename To, typename From>
OpFn FindCastLoop() {
  if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    using Source =
        std::conditional_t<(sizeof(To) > sizeof(From)), From, std::make_unsigned_t<From>>;
    return &CastLoop<std::make_unsigned_t<To>, Source>;
  } else if constexpr (std::is_integral_v<From> && std::is_same_v<To, Bool>) {
    return &CastLoop<Bool, std::make_unsigned_t<From>>;
  } else if constexpr (std::is_same_v<From, Bool> && std::is_integral_v<To>) {
    return &CastLoop<std::make_unsigned_t<To>, Bool>;
  } else {
    return &CastLoop<To, From>;
  }
}

// WithType, in which bools are no bytes.
template <typename F>
auto WithCastType(DType type, F f) {
  if (type == DType::kBool) return f(Bool{});
  return WithType(type, f);
}

inline OpFn Cast(DType from, DType to) {
  return WithCastType(from, [to](auto source) {
    return WithCastType(
        to, [](auto result) { return FindCastLoop<decltype(result), decltype(source)>(); });
  });
}

inline void BFloatToFloatBlock(const OpArgs& x) {
  const size_t n = x.n;
  const auto* a = static_cast<const uint16_t*>(x.a);
  auto* dst = static_cast<uint32_t*>(x.dst);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<uint32_t>(a[i]) << 16;
}

// The bits of an f32 rounded to bf16.
inline uint32_t RoundToBFloat(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}

inline void FloatToBFloatBlock(const OpArgs& x) {
  const size_t n = x.n;
  const auto* a = static_cast<const uint32_t*>(x.a);
  auto* dst = static_cast<uint16_t*>(x.dst);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<uint16_t>(RoundToBFloat(a[i]));
}

inline void RoundToBFloatBlock(const OpArgs& x) {
  const size_t n = x.n;
  const auto* a = static_cast<const uint32_t*>(x.a);
  auto* dst = static_cast<uint32_t*>(x.dst);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = RoundToBFloat(a[i]) << 16;
}

inline void NormaliseBool(const OpArgs& x) {
  const size_t n = x.n;
  for (size_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(x.dst)[i] = static_cast<const uint8_t*>(x.a)[i] != 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
