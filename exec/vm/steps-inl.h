// SPDX-License-Identifier: Apache-2.0
// The steps of strips on explicit vectors, for instruction sets with fused multiply-add. Same bits
// as loops-inl.h.
#if defined(KILN_EXEC_VM_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KILN_EXEC_VM_STEPS_INL_H_
#undef KILN_EXEC_VM_STEPS_INL_H_
#else
#define KILN_EXEC_VM_STEPS_INL_H_
#endif

#include "exec/vm/casts-inl.h"
#include "exec/vm/step.h"
#include "exec/vm/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {

#if HWY_NATIVE_FMA
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;

HWY_INLINE VI Ints(V v) { return hn::BitCast(DI(), v); }
HWY_INLINE VU Words(V v) { return hn::BitCast(DU(), v); }
template <typename T>
HWY_INLINE V Lanes(T v) {
  return hn::BitCast(D(), v);
}

// ---- Operands in memory.

// Of the type whose bits a narrow type has.
template <DType kType>
constexpr auto NarrowZero() {
  if constexpr (kType == DType::kI8) {
    return int8_t{};
  } else if constexpr (kType == DType::kI16) {
    return int16_t{};
  } else if constexpr (kType == DType::kU16 || kType == DType::kF16 || kType == DType::kBF16) {
    return uint16_t{};
  } else {
    return uint8_t{};
  }
}

template <DType kType>
HWY_INLINE V LoadLanes(const void* block, size_t at) {
  if constexpr (kType == DType::kF16) {
    const hn::Rebind<hwy::float16_t, D> d;
    return hn::PromoteTo(D(), hn::LoadU(d, static_cast<const hwy::float16_t*>(block) + at));
  } else if constexpr (kType == DType::kF32) {
    return hn::LoadU(D(), static_cast<const float*>(block) + at);
  } else {
    using T = decltype(NarrowZero<kType>());
    const hn::Rebind<T, DI> d;
    const VI v = hn::PromoteTo(DI(), hn::LoadU(d, static_cast<const T*>(block) + at));
    if constexpr (kType == DType::kBF16) return Lanes(hn::ShiftLeft<16>(v));
    if constexpr (kType == DType::kBool) return Lanes(hn::Neg(v));
    return Lanes(v);
  }
}

// What a vector is in memory.
template <DType kType>
HWY_INLINE auto Packed(V v) {
  if constexpr (kType == DType::kF32) {
    return v;
  } else if constexpr (kType == DType::kF16) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(half, v));
  } else {
    VI lanes = Ints(v);
    if constexpr (kType == DType::kBF16) lanes = hn::BitCast(DI(), hn::ShiftRight<16>(Words(v)));
    if constexpr (kType == DType::kBool) lanes = hn::Neg(lanes);
    return hn::DemoteTo(hn::Rebind<decltype(NarrowZero<kType>()), DI>(), lanes);
  }
}

template <DType kType>
HWY_INLINE void StoreLanes(V v, void* block, size_t at) {
  const auto lanes = Packed<kType>(v);
  const hn::DFromV<decltype(lanes)> d;
  hn::StoreU(lanes, d, static_cast<hn::TFromD<decltype(d)>*>(block) + at);
}

// The same around the caches; not for vectors that are less than the processor stores so.
template <DType kType>
HWY_INLINE void StoreLanesNonTemporal(V v, void* block, size_t at) {
  const auto lanes = Packed<kType>(v);
  const hn::DFromV<decltype(lanes)> d;
  hn::Stream(lanes, d, static_cast<hn::TFromD<decltype(d)>*>(block) + at);
}

// The elements that a vector has: in blocks, and in slots.
struct Place {
  size_t block, slot;
};

// An operand of a step.
template <Where kWhere, DType kType = DType::kF32>
struct From {
  explicit HWY_INLINE From(const void* data) : block(data) {
    if constexpr (kWhere == Where::kOne && kType == DType::kF32) {
      one = hn::Set(D(), *static_cast<const float*>(data));
    } else if constexpr (kWhere == Where::kOne) {
      one = hn::Set(D(), hn::GetLane(LoadLanes<kType>(data, 0)));
    }
  }
  HWY_INLINE V operator()(Place at, V a, V b) const {
    if constexpr (kWhere == Where::kA) return a;
    if constexpr (kWhere == Where::kB) return b;
    if constexpr (kWhere == Where::kOne) return one;
    if constexpr (kWhere == Where::kSlot) return LoadLanes<DType::kF32>(block, at.slot);
    return LoadLanes<kType>(block, at.block);
  }
  const void* block;
  V one;
};

// ---- Steps: what they do to one vector of each accumulator.

template <Where kWhere, DType kType>
struct LoadStep {
  explicit HWY_INLINE LoadStep(const Step& s) : x(s.x) {}
  HWY_INLINE void operator()(Place at, V& a, V& b) const { a = x(at, a, b); }
  From<kWhere, kType> x;
};

struct KeepStep {
  explicit HWY_INLINE KeepStep(const Step&) {}
  HWY_INLINE void operator()(Place, V& a, V& b) const { b = a; }
};

template <DType kType>
struct StoreStep {
  explicit HWY_INLINE StoreStep(const Step& s) : x(const_cast<void*>(s.x)) {}
  HWY_INLINE void operator()(Place at, V& a, V&) const { StoreLanes<kType>(a, x, at.block); }
  void* x;
};

template <DType kType>
struct NonTemporalStep {
  explicit HWY_INLINE NonTemporalStep(const Step& s) : x(const_cast<void*>(s.x)) {}
  HWY_INLINE void operator()(Place at, V& a, V&) const {
    StoreLanesNonTemporal<kType>(a, x, at.block);
  }
  void* x;
};

template <bool kKept>
struct SaveStep {
  explicit HWY_INLINE SaveStep(const Step& s) : x(const_cast<void*>(s.x)) {}
  HWY_INLINE void operator()(Place at, V& a, V& b) const {
    StoreLanes<DType::kF32>(kKept ? b : a, x, at.slot);
  }
  void* x;
};

template <typename F>
struct UnaryStep {
  explicit HWY_INLINE UnaryStep(const Step&) {}
  HWY_INLINE void operator()(Place, V& a, V&) const { a = F::Do(a); }
};

template <typename F, Where kX, Where kY, DType kType>
struct BinaryStep {
  explicit HWY_INLINE BinaryStep(const Step& s) : x(s.x), y(InMemory(kX) ? s.y : s.x) {}
  HWY_INLINE void operator()(Place at, V& a, V& b) const { a = F::Do(x(at, a, b), y(at, a, b)); }
  From<kX, kType> x;
  From<kY, kType> y;
};

template <typename F, Where kX, Where kY, Where kZ>
struct TernaryStep {
  static constexpr int kBeforeY = InMemory(kX), kBeforeZ = kBeforeY + InMemory(kY);
  explicit HWY_INLINE TernaryStep(const Step& s)
      : x(s.x), y(kBeforeY == 0 ? s.x : s.y), z(kBeforeZ == 0 ? s.x : s.y) {}
  HWY_INLINE void operator()(Place at, V& a, V& b) const {
    a = F::Do(x(at, a, b), y(at, a, b), z(at, a, b));
  }
  From<kX> x;
  From<kY> y;
  From<kZ> z;
};

// ---- Steps as functions. Each calls the next one with the accumulators in vector registers.

using WideFn = void (*)(const Step*, size_t, V, V, V, V, V, V, V, V);
using NarrowFn = void (*)(const Step*, size_t, V, V);

template <typename S>
void Wide(const Step* s, size_t at, V a0, V a1, V a2, V a3, V b0, V b1, V b2, V b3) {
  const S step(*s);
  const size_t n = hn::Lanes(D());
  step({at, 0}, a0, b0);
  step({at + n, n}, a1, b1);
  step({at + 2 * n, 2 * n}, a2, b2);
  step({at + 3 * n, 3 * n}, a3, b3);
  ++s;
  return reinterpret_cast<WideFn>(s->fn.wide)(s, at, a0, a1, a2, a3, b0, b1, b2, b3);
}

template <typename S>
void Narrow(const Step* s, size_t at, V a, V b) {
  const S step(*s);
  step({at, 0}, a, b);
  ++s;
  return reinterpret_cast<NarrowFn>(s->fn.narrow)(s, at, a, b);
}

// The last step of a strip.
template <typename S>
void WideLast(const Step* s, size_t at, V a0, V a1, V a2, V a3, V b0, V b1, V b2, V b3) {
  const S step(*s);
  const size_t n = hn::Lanes(D());
  step({at, 0}, a0, b0);
  step({at + n, n}, a1, b1);
  step({at + 2 * n, 2 * n}, a2, b2);
  step({at + 3 * n, 3 * n}, a3, b3);
}

template <typename S>
void NarrowLast(const Step* s, size_t at, V a, V b) {
  const S step(*s);
  step({at, 0}, a, b);
}

inline void WideEnd(const Step*, size_t, V, V, V, V, V, V, V, V) {}
inline void NarrowEnd(const Step*, size_t, V, V) {}

template <typename S>
StepFn Make() {
  return {reinterpret_cast<void (*)()>(&Wide<S>), reinterpret_cast<void (*)()>(&Narrow<S>)};
}

static_assert(4 * HWY_MAX_BYTES <= kSlotBytes);

template <typename S>
StepFn MakeLast() {
  return {reinterpret_cast<void (*)()>(&WideLast<S>), reinterpret_cast<void (*)()>(&NarrowLast<S>)};
}

inline void RunStrip(const Step* steps, size_t begin, size_t end) {
  const V z = hn::Zero(D());
  const size_t n = hn::Lanes(D());
  size_t at = begin;
  const auto wide = reinterpret_cast<WideFn>(steps->fn.wide);
  for (; at + 4 * n <= end; at += 4 * n) wide(steps, at, z, z, z, z, z, z, z, z);
  const auto narrow = reinterpret_cast<NarrowFn>(steps->fn.narrow);
  for (; at < end; at += n) narrow(steps, at, z, z);
}

// ---- What they compute.

#define KILN_INT_STEP(NAME, CALL)        \
  struct NAME {                          \
    static HWY_INLINE V Do(V a, V b) {   \
      const VI x = Ints(a), y = Ints(b); \
      return Lanes(CALL);                \
    }                                    \
  }
KILN_INT_STEP(SAddInt, hn::Add(x, y));
KILN_INT_STEP(SSubInt, hn::Sub(x, y));
KILN_INT_STEP(SMulInt, hn::Mul(x, y));
KILN_INT_STEP(SAnd, hn::And(x, y));
KILN_INT_STEP(SOr, hn::Or(x, y));
KILN_INT_STEP(SXor, hn::Xor(x, y));
KILN_INT_STEP(SEqInt, hn::VecFromMask(DI(), hn::Eq(x, y)));
KILN_INT_STEP(SLtInt, hn::VecFromMask(DI(), hn::Lt(x, y)));
KILN_INT_STEP(SLeInt, hn::Not(hn::VecFromMask(DI(), hn::Lt(y, x))));
#undef KILN_INT_STEP

// The processor's shifts by amounts outside [0, 32) shift all bits out, as scalar_expr.h wants.
struct SShl {
  static HWY_INLINE V Do(V a, V b) { return Lanes(hn::Shl(Words(a), Words(b))); }
};
struct SShr {
  static HWY_INLINE V Do(V a, V b) { return Lanes(hn::Shr(Ints(a), Ints(b))); }
};
struct SShrUnsigned {
  static HWY_INLINE V Do(V a, V b) { return Lanes(hn::Shr(Words(a), Words(b))); }
};
struct SEq {
  static HWY_INLINE V Do(V a, V b) { return hn::VecFromMask(D(), hn::Eq(a, b)); }
};
struct SNe {
  static HWY_INLINE V Do(V a, V b) { return hn::Not(SEq::Do(a, b)); }  // Ne is false of a NaN
};
struct SLt {
  static HWY_INLINE V Do(V a, V b) { return hn::VecFromMask(D(), hn::Lt(a, b)); }
};
struct SLe {
  static HWY_INLINE V Do(V a, V b) { return hn::VecFromMask(D(), hn::Le(a, b)); }
};
struct SIsNan {
  static HWY_INLINE V Do(V a) { return hn::VecFromMask(D(), hn::IsNaN(a)); }
};
struct SNot {
  static HWY_INLINE V Do(V a) { return Lanes(hn::Not(Ints(a))); }
};
struct SFma {
  static HWY_INLINE V Do(V a, V b, V c) { return hn::MulAdd(a, b, c); }
};
struct SSelect {
  static HWY_INLINE V Do(V a, V b, V c) { return hn::IfVecThenElse(a, b, c); }
};
struct SSame {
  static HWY_INLINE V Do(V a) { return a; }
};
struct SIntToFloat {
  static HWY_INLINE V Do(V a) { return hn::ConvertTo(D(), Ints(a)); }
};
// Saturates; NaN becomes 0.
struct SFloatToInt {
  static HWY_INLINE V Do(V a) {
    return Lanes(hn::ConvertTo(DI(), hn::IfThenZeroElse(hn::IsNaN(a), a)));
  }
};
template <int kLeast, int kMost>
struct SFloatToByte {
  static HWY_INLINE V Do(V a) {
    const V number = hn::IfThenZeroElse(hn::IsNaN(a), a);
    const V least = hn::Set(D(), kLeast), most = hn::Set(D(), kMost);
    return Lanes(hn::ConvertTo(DI(), hn::Min(hn::Max(number, least), most)));
  }
};
struct SBoolToFloat {
  static HWY_INLINE V Do(V a) { return hn::And(a, hn::Set(D(), 1.0f)); }
};
struct SBoolToInt {
  static HWY_INLINE V Do(V a) { return Lanes(hn::Neg(Ints(a))); }
};
struct SFloatToBool {
  static HWY_INLINE V Do(V a) { return SNe::Do(a, hn::Zero(D())); }
};
struct SIntToBool {
  static HWY_INLINE V Do(V a) { return SNot::Do(SEqInt::Do(a, hn::Zero(D()))); }
};
struct SRoundToHalf {
  static HWY_INLINE V Do(V a) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(D(), hn::DemoteTo(half, a));
  }
};
// RoundToBFloat of casts-inl.h.
struct SRoundToBFloat {
  static HWY_INLINE V Do(V a) {
    const VU bits = Words(a), half = hn::Set(DU(), 0x7fffu), one = hn::Set(DU(), 1u);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), one);
    const VU rounded = hn::Add(bits, hn::Add(half, odd));
    const VU nan = hn::Or(bits, hn::Set(DU(), 0x400000u));
    const VU chosen = hn::IfVecThenElse(Words(SIsNan::Do(a)), nan, rounded);
    return Lanes(hn::And(chosen, hn::Set(DU(), 0xffff0000u)));
  }
};
#endif  // HWY_NATIVE_FMA

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
