// SPDX-License-Identifier: Apache-2.0
// Conversions and moves: the part of ops.h that is compiled once.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kiln/exec/vm/ops.h"
#include "kiln/exec/vm/with_size.h"
#include "kiln/kernel/eval.h"

namespace kiln::vm {
namespace {

struct Bool {
  uint8_t v;
};

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
    using Limits = std::numeric_limits<To>;
    constexpr To kHalf = Limits::max() / 2 + 1;
    constexpr From kEnd = From{2} * static_cast<From>(kHalf);  // one past the largest, exact
    if (x >= kEnd) return Limits::max();
    if (x < static_cast<From>(Limits::min())) return Limits::min();
    return x != x ? To{0} : static_cast<To>(x);
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
      return f(uint8_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kBool:
      return f(Bool{});
    default:
      return f(float{});
  }
}

template <float (*kWiden)(uint16_t), uint16_t (*kNarrow)(float)>
void RoundLoop(const OpArgs& x) {
  const size_t n = x.n;
  for (size_t i = 0; i < n; ++i)
    static_cast<float*>(x.dst)[i] = kWiden(kNarrow(static_cast<const float*>(x.a)[i]));
}

}  // namespace

OpFn FindCast(DType from, DType to) {
  return WithType(from, [to](auto source) {
    return WithType(
        to, [](auto result) -> OpFn { return &CastLoop<decltype(result), decltype(source)>; });
  });
}

uint64_t EmptyValue(ReduceOp op, DType type) {
  return op == ReduceOp::kAdd && IsFloat(type) ? 0 : Identity(op, type);
}

void BFloatToFloatBlock(const OpArgs& x) {
  const size_t n = x.n;
  const auto* a = static_cast<const uint16_t*>(x.a);
  auto* dst = static_cast<uint32_t*>(x.dst);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<uint32_t>(a[i]) << 16;
}

void FloatToBFloatBlock(const OpArgs& x) {
  const size_t n = x.n;
  const auto* a = static_cast<const uint32_t*>(x.a);
  auto* dst = static_cast<uint16_t*>(x.dst);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = a[i];
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    dst[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

void NormaliseBool(const OpArgs& x) {
  const size_t n = x.n;
  for (size_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(x.dst)[i] = static_cast<const uint8_t*>(x.a)[i] != 0;
}

OpFn FindRoundTo(DType aux) {
  return aux == DType::kF16 ? &RoundLoop<&HalfToFloat, &FloatToHalf>
                            : &RoundLoop<&BFloatToFloat, &FloatToBFloat>;
}

void FillElements(size_t size, void* dst, const void* element, size_t n) {
  WithSize(size, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, element, sizeof(T));
    for (size_t i = 0; i < n; ++i) static_cast<T*>(dst)[i] = value;
  });
}

void GatherStrided(size_t size, void* dst, const void* src, int64_t stride, size_t n) {
  if (stride == 1) {
    std::memcpy(dst, src, n * size);
    return;
  }
  if (stride == 0) {
    FillElements(size, dst, src, n);
    return;
  }
  WithSize(size, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = static_cast<const T*>(src);
    for (size_t i = 0; i < n; ++i) static_cast<T*>(dst)[i] = from[static_cast<int64_t>(i) * stride];
  });
}

void ScatterStrided(size_t size, void* dst, int64_t stride, const void* src, size_t n) {
  if (stride == 1) {
    std::memcpy(dst, src, n * size);
    return;
  }
  WithSize(size, [&](auto zero) {
    using T = decltype(zero);
    auto* to = static_cast<T*>(dst);
    for (size_t i = 0; i < n; ++i)
      to[static_cast<int64_t>(i) * stride] = static_cast<const T*>(src)[i];
  });
}

}  // namespace kiln::vm
