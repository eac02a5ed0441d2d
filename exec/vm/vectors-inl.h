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
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);
  }
};
struct VMin {
  static HWY_INLINE V Do(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);
  }
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

template <typename F>
void VLanes(const OpArgs& x) {
  const D d;
  constexpr size_t kLanes = kReduceLanes;
  constexpr size_t kVectors = kLanes / (HWY_MAX_BYTES / sizeof(float));
  const size_t step = hn::Lanes(d);
  auto* dst = static_cast<float*>(x.dst);
  const auto* a = static_cast<const float*>(x.a);
  const size_t whole = x.n / kLanes * kLanes;
  if (whole > 0) {
    V acc[kVectors];
    for (size_t v = 0; v < kVectors; ++v) acc[v] = hn::LoadU(d, dst + v * step);
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t v = 0; v < kVectors; ++v) acc[v] = F::Do(acc[v], hn::LoadU(d, a + i + v * step));
    }
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(acc[v], d, dst + v * step);
  }
  for (size_t v = 0; whole + v * step < x.n; ++v) {
    const V old = hn::LoadU(d, dst + v * step);
    const V all = F::Do(old, hn::LoadU(d, a + whole + v * step));
    const size_t count = x.n - whole - v * step;
    hn::StoreU(hn::IfThenElse(hn::FirstN(d, count), all, old), d, dst + v * step);
  }
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
