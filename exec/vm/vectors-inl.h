// SPDX-License-Identifier: Apache-2.0
// f32 primitives on explicit vectors, for instruction sets with fused multiply-add. Same bits as
// loops-inl.h.
#if defined(KILN_EXEC_VM_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KILN_EXEC_VM_VECTORS_INL_H_
#undef KILN_EXEC_VM_VECTORS_INL_H_
#else
#define KILN_EXEC_VM_VECTORS_INL_H_
#endif

#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kiln/exec/vm/ops.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {

#if HWY_NATIVE_FMA
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
static_assert(HWY_MAX_BYTES / sizeof(float) <= kVectorElements);

struct VAdd {
  static HWY_INLINE V Do(V a, V b) { return hn::Add(a, b); }
};
struct VSub {
  static HWY_INLINE V Do(V a, V b) { return hn::Sub(a, b); }
};
struct VMul {
  static HWY_INLINE V Do(V a, V b) { return hn::Mul(a, b); }
};
struct VDiv {
  static HWY_INLINE V Do(V a, V b) { return hn::Div(a, b); }
};
struct VMax {
  static HWY_INLINE V Do(V a, V b) {
    return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b));  // Max is a > b ? a : b, bit by bit
  }
};
struct VMin {
  static HWY_INLINE V Do(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b)); }
};
// select(a < b, a, b) and select(a < b, b, a): how clamps are written.
struct VLesser {
  static HWY_INLINE V Do(V a, V b) { return hn::IfThenElse(hn::Lt(a, b), a, b); }
};
struct VGreater {
  static HWY_INLINE V Do(V a, V b) { return hn::IfThenElse(hn::Lt(a, b), b, a); }
};
struct VNeg {
  static HWY_INLINE V Do(V a) { return hn::Neg(a); }
};
struct VAbs {
  static HWY_INLINE V Do(V a) { return hn::Abs(a); }
};
struct VSqrt {
  static HWY_INLINE V Do(V a) { return hn::Sqrt(a); }
};
struct VFloor {
  static HWY_INLINE V Do(V a) { return hn::Floor(a); }
};
struct VCeil {
  static HWY_INLINE V Do(V a) { return hn::Ceil(a); }
};
struct VRound {
  static HWY_INLINE V Do(V a) { return hn::Round(a); }
};
struct VTrunc {
  static HWY_INLINE V Do(V a) { return hn::Trunc(a); }
};

// An operand of a loop: a block, or one element that stands for a whole block.
template <bool kUniform>
struct Operand {
  explicit HWY_INLINE Operand(const void* data)
      : p(static_cast<const float*>(data)), all(hn::Set(D(), *p)) {}
  HWY_INLINE V operator()(size_t i) const { return kUniform ? all : hn::LoadU(D(), p + i); }
  const float* p;
  V all;
};

template <typename F>
void VMap1(const OpArgs& x) {
  const D d;
  const Operand<false> a(x.a);
  auto* dst = static_cast<float*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d)) hn::StoreU(F::Do(a(i)), d, dst + i);
}

template <typename F, bool kA = false, bool kB = false>
void VMap2(const OpArgs& x) {
  const D d;
  const Operand<kA> a(x.a);
  const Operand<kB> b(x.b);
  auto* dst = static_cast<float*>(x.dst);
  const size_t step = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * step <= x.n; i += 4 * step) {
    hn::StoreU(F::Do(a(i), b(i)), d, dst + i);
    hn::StoreU(F::Do(a(i + step), b(i + step)), d, dst + i + step);
    hn::StoreU(F::Do(a(i + 2 * step), b(i + 2 * step)), d, dst + i + 2 * step);
    hn::StoreU(F::Do(a(i + 3 * step), b(i + 3 * step)), d, dst + i + 3 * step);
  }
  for (; i < x.n; i += step) hn::StoreU(F::Do(a(i), b(i)), d, dst + i);
}

template <bool kA = false, bool kB = false, bool kC = false>
void VFma(const OpArgs& x) {
  const D d;
  const Operand<kA> a(x.a);
  const Operand<kB> b(x.b);
  const Operand<kC> c(x.c);
  auto* dst = static_cast<float*>(x.dst);
  const size_t step = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * step <= x.n; i += 2 * step) {
    hn::StoreU(hn::MulAdd(a(i), b(i), c(i)), d, dst + i);
    hn::StoreU(hn::MulAdd(a(i + step), b(i + step), c(i + step)), d, dst + i + step);
  }
  for (; i < x.n; i += step) hn::StoreU(hn::MulAdd(a(i), b(i), c(i)), d, dst + i);
}

// Where a loop over whole vectors reads an operand, and how far it goes from one to the next: not
// at all for one element, of which `all` is filled.
struct Source {
  const float* at;
  size_t step;
};

HWY_INLINE Source SourceOf(const void* data, bool uniform, float* all) {
  const auto* at = static_cast<const float*>(data);
  if (!uniform) return {at, hn::Lanes(D())};
  hn::StoreU(hn::Set(D(), *at), D(), all);
  return {all, 0};
}

template <typename F, typename G, bool kSecond>
void VPair(const OpArgs& x) {
  const D d;
  float all[3][HWY_MAX_BYTES / sizeof(float)];
  auto [a, a_step] = SourceOf(x.a, (x.imm & 1) != 0, all[0]);
  auto [b, b_step] = SourceOf(x.b, (x.imm & 2) != 0, all[1]);
  auto [c, c_step] = SourceOf(x.c, (x.imm & 4) != 0, all[2]);
  auto* dst = static_cast<float*>(x.dst);
  float* const end = dst + x.n;
  const auto one = [&](const float* p, const float* q, const float* r) {
    const V inner = F::Do(hn::LoadU(d, p), hn::LoadU(d, q)), other = hn::LoadU(d, r);
    return kSecond ? G::Do(other, inner) : G::Do(inner, other);
  };
  for (; dst + 2 * hn::Lanes(d) <= end; dst += 2 * hn::Lanes(d)) {
    const V low = one(a, b, c), high = one(a + a_step, b + b_step, c + c_step);
    hn::StoreU(low, d, dst);
    hn::StoreU(high, d, dst + hn::Lanes(d));
    a += 2 * a_step, b += 2 * b_step, c += 2 * c_step;
  }
  for (; dst < end; dst += hn::Lanes(d), a += a_step, b += b_step, c += c_step)
    hn::StoreU(one(a, b, c), d, dst);
}

template <bool kOrEqual>
void VChoose(const OpArgs& x) {
  const D d;
  float all[4][HWY_MAX_BYTES / sizeof(float)];
  auto [a, a_step] = SourceOf(x.a, (x.imm & 1) != 0, all[0]);
  auto [b, b_step] = SourceOf(x.b, (x.imm & 2) != 0, all[1]);
  auto [yes, yes_step] = SourceOf(x.c, (x.imm & 4) != 0, all[2]);
  auto [no, no_step] = SourceOf(x.d, (x.imm & 8) != 0, all[3]);
  auto* dst = static_cast<float*>(x.dst);
  float* const end = dst + x.n;
  for (; dst < end; dst += hn::Lanes(d)) {
    const V left = hn::LoadU(d, a), right = hn::LoadU(d, b);
    const auto holds = kOrEqual ? hn::Le(left, right) : hn::Lt(left, right);
    hn::StoreU(hn::IfThenElse(holds, hn::LoadU(d, yes), hn::LoadU(d, no)), d, dst);
    a += a_step, b += b_step, yes += yes_step, no += no_step;
  }
}

inline void VHorner(const OpArgs& x) {
  const D d;
  const auto* a = static_cast<const float*>(x.a);
  const auto* k = static_cast<const float*>(x.b);
  const auto* c = static_cast<const float*>(x.c);
  auto* dst = static_cast<float*>(x.dst);
  const size_t step = hn::Lanes(d);
  for (size_t i = 0; i < x.n; i += 2 * step) {  // two chains hide each other's latency
    const size_t j = i + step < x.n ? i + step : i;
    const V a0 = hn::LoadU(d, a + i), a1 = hn::LoadU(d, a + j);
    V p0 = hn::LoadU(d, c + i), p1 = hn::LoadU(d, c + j);
    for (size_t m = 0; m < x.imm; ++m) {
      const V next = hn::Set(d, k[m]);
      p0 = hn::MulAdd(p0, a0, next);
      p1 = hn::MulAdd(p1, a1, next);
    }
    hn::StoreU(p0, d, dst + i);
    hn::StoreU(p1, d, dst + j);
  }
}

// Lanes of a reduction in vectors.
inline constexpr size_t kLaneVectors = kReduceLanes / (HWY_MAX_BYTES / sizeof(float));

template <typename F>
void VLanes(const OpArgs& x) {
  const D d;
  const size_t step = hn::Lanes(d);
  auto* dst = static_cast<float*>(x.dst);
  const auto* a = static_cast<const float*>(x.a);
  const size_t whole = x.n / kReduceLanes * kReduceLanes;
  if (whole > 0) {
    V acc[kLaneVectors];
    for (size_t v = 0; v < kLaneVectors; ++v) acc[v] = hn::LoadU(d, dst + v * step);
    for (size_t i = 0; i < whole; i += kReduceLanes) {
      for (size_t v = 0; v < kLaneVectors; ++v)
        acc[v] = F::Do(acc[v], hn::LoadU(d, a + i + v * step));
    }
    for (size_t v = 0; v < kLaneVectors; ++v) hn::StoreU(acc[v], d, dst + v * step);
  }
  for (size_t v = 0; whole + v * step < x.n; ++v) {
    const V old = hn::LoadU(d, dst + v * step);
    const V all = F::Do(old, hn::LoadU(d, a + whole + v * step));
    const size_t count = x.n - whole - v * step;
    hn::StoreU(hn::IfThenElse(hn::FirstN(d, count), all, old), d, dst + v * step);
  }
}

// All lanes folded by halves; lane l of vector v is lane v * (lanes of a vector) + l.
template <typename F>
HWY_INLINE float Fold(V* lanes) {
  for (size_t half = kLaneVectors / 2; half > 0; half /= 2) {
    for (size_t v = 0; v < half; ++v) lanes[v] = F::Do(lanes[v], lanes[v + half]);
  }
  V v = lanes[0];
#if HWY_TARGET <= HWY_AVX3
  v = F::Do(v, V{_mm512_shuffle_f32x4(v.raw, v.raw, 0x4e)});
#endif
  v = F::Do(v, hn::SwapAdjacentBlocks(v));
  v = F::Do(v, hn::Shuffle1032(v));
  v = F::Do(v, hn::Shuffle2301(v));
  return hn::GetLane(v);
}

template <typename F>
void VFold(const OpArgs& x) {
  auto* dst = static_cast<float*>(x.dst);
  V lanes[kLaneVectors];
  for (size_t v = 0; v < kLaneVectors; ++v)
    lanes[v] = hn::LoadU(D(), dst + v * (kReduceLanes / kLaneVectors));
  *dst = Fold<F>(lanes);
}

template <typename F>
void VRows(const OpArgs& x) {
  const D d;
  constexpr size_t kStep = kReduceLanes / kLaneVectors;
  const size_t width = x.imm, whole = width / kReduceLanes * kReduceLanes;
  auto* dst = static_cast<float*>(x.dst);
  const auto* row = static_cast<const float*>(x.a);
  const V identity = hn::Set(d, *static_cast<const float*>(x.b));
  for (size_t at = 0; at < x.n; at += width, row += width) {
    V lanes[kLaneVectors];
    for (size_t v = 0; v < kLaneVectors; ++v) lanes[v] = identity;
    for (size_t i = 0; i < whole; i += kReduceLanes) {
      for (size_t v = 0; v < kLaneVectors; ++v)
        lanes[v] = F::Do(lanes[v], hn::LoadU(d, row + i + v * kStep));
    }
    for (size_t v = 0; v < kLaneVectors && whole + v * kStep < width; ++v) {
      const auto inside = hn::FirstN(d, width - whole - v * kStep);
      const V element = hn::MaskedLoad(inside, d, row + whole + v * kStep);
      lanes[v] = hn::IfThenElse(inside, F::Do(lanes[v], element), lanes[v]);
    }
    *dst++ = Fold<F>(lanes);
  }
}

template <typename F>
ReduceFns VReduce(const ReduceFns& loops) {
  return {&VLanes<F>, &VFold<F>, loops.sequence, &VMap2<F>, &VRows<F>};
}

inline void VHalfToFloat(const OpArgs& x) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto* a = static_cast<const hwy::float16_t*>(x.a);
  auto* dst = static_cast<float*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, a + i)), d, dst + i);
}

inline void VFloatToHalf(const OpArgs& x) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto* a = static_cast<const float*>(x.a);
  auto* dst = static_cast<hwy::float16_t*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, a + i)), half, dst + i);
}

inline void VRoundToHalf(const OpArgs& x) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto* a = static_cast<const float*>(x.a);
  auto* dst = static_cast<float*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::DemoteTo(half, hn::LoadU(d, a + i))), d, dst + i);
}

// f32 to a type of one byte, saturated; NaN becomes 0.
template <typename To>
void VToBytes(const OpArgs& x) {
  const D d;
  const hn::Rebind<int32_t, D> integers;
  const hn::Rebind<To, D> bytes;
  using Limits = std::numeric_limits<To>;
  const V least = hn::Set(d, Limits::min()), most = hn::Set(d, Limits::max());
  const auto* a = static_cast<const float*>(x.a);
  auto* dst = static_cast<To*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d)) {
    const V v = hn::LoadU(d, a + i);
    const V number = hn::IfThenZeroElse(hn::IsNaN(v), v);
    const auto inside = hn::ConvertTo(integers, hn::Min(hn::Max(number, least), most));
    hn::StoreU(hn::DemoteTo(bytes, inside), bytes, dst + i);
  }
}

inline OpFn FindVector(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
      return &VMap2<VAdd>;
    case ScalarOp::kSub:
      return &VMap2<VSub>;
    case ScalarOp::kMul:
      return &VMap2<VMul>;
    case ScalarOp::kDiv:
      return &VMap2<VDiv>;
    case ScalarOp::kMin:
      return &VMap2<VMin>;
    case ScalarOp::kMax:
      return &VMap2<VMax>;
    case ScalarOp::kFma:
      return &VFma<>;
    case ScalarOp::kNeg:
      return &VMap1<VNeg>;
    case ScalarOp::kAbs:
      return &VMap1<VAbs>;
    case ScalarOp::kSqrt:
      return &VMap1<VSqrt>;
    case ScalarOp::kFloor:
      return &VMap1<VFloor>;
    case ScalarOp::kCeil:
      return &VMap1<VCeil>;
    case ScalarOp::kRound:
      return &VMap1<VRound>;
    case ScalarOp::kTrunc:
      return &VMap1<VTrunc>;
    default:
      return nullptr;
  }
}

template <typename F>
OpFn FindOuter(ScalarOp outer, bool second) {
  switch (outer) {
    case ScalarOp::kAdd:
      return second ? &VPair<F, VAdd, true> : &VPair<F, VAdd, false>;
    case ScalarOp::kSub:
      return second ? &VPair<F, VSub, true> : &VPair<F, VSub, false>;
    case ScalarOp::kMul:
      return second ? &VPair<F, VMul, true> : &VPair<F, VMul, false>;
    case ScalarOp::kDiv:
      return second ? &VPair<F, VDiv, true> : &VPair<F, VDiv, false>;
    case ScalarOp::kMin:
      return second ? &VPair<F, VMin, true> : &VPair<F, VMin, false>;
    case ScalarOp::kMax:
      return second ? &VPair<F, VMax, true> : &VPair<F, VMax, false>;
    default:
      return nullptr;
  }
}

inline OpFn FindPair(ScalarOp inner, ScalarOp outer, bool second) {
  switch (inner) {
    case ScalarOp::kAdd:
      return FindOuter<VAdd>(outer, second);
    case ScalarOp::kSub:
      return FindOuter<VSub>(outer, second);
    case ScalarOp::kMul:
      return FindOuter<VMul>(outer, second);
    case ScalarOp::kDiv:
      return FindOuter<VDiv>(outer, second);
    case ScalarOp::kMin:
      return FindOuter<VMin>(outer, second);
    case ScalarOp::kMax:
      return FindOuter<VMax>(outer, second);
    default:
      return nullptr;
  }
}

inline OpFn FindChoose(ScalarOp comparison) {
  if (comparison == ScalarOp::kLt) return &VChoose<false>;
  return comparison == ScalarOp::kLe ? &VChoose<true> : nullptr;
}

template <typename F>
OpFn UniformMap2(unsigned mask) {
  return mask == 1 ? &VMap2<F, true, false> : mask == 2 ? &VMap2<F, false, true> : nullptr;
}

inline OpFn FindChoice(bool greater, unsigned mask) {
  if (mask == 0) return greater ? &VMap2<VGreater> : &VMap2<VLesser>;
  return greater ? UniformMap2<VGreater>(mask) : UniformMap2<VLesser>(mask);
}

inline OpFn FindUniformFloat(ScalarOp op, unsigned mask) {
  switch (op) {
    case ScalarOp::kAdd:
      return UniformMap2<VAdd>(mask);
    case ScalarOp::kSub:
      return UniformMap2<VSub>(mask);
    case ScalarOp::kMul:
      return UniformMap2<VMul>(mask);
    case ScalarOp::kDiv:
      return UniformMap2<VDiv>(mask);
    case ScalarOp::kMin:
      return UniformMap2<VMin>(mask);
    case ScalarOp::kMax:
      return UniformMap2<VMax>(mask);
    case ScalarOp::kFma:
      break;
    default:
      return nullptr;
  }
  switch (mask) {
    case 1:
      return &VFma<true, false, false>;
    case 2:
      return &VFma<false, true, false>;
    case 3:
      return &VFma<true, true, false>;
    case 4:
      return &VFma<false, false, true>;
    case 5:
      return &VFma<true, false, true>;
    case 6:
      return &VFma<false, true, true>;
    default:
      return nullptr;
  }
}
#endif  // HWY_NATIVE_FMA

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
