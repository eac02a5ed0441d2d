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

#include "exec/vm/ops.h"
#include "hwy/highway.h"

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
struct VGreatest {
  static HWY_INLINE V Do(V a, V b) { return hn::Max(a, b); }  // a > b ? a : b, bit by bit
};
struct VMax {
  static HWY_INLINE V Do(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, VGreatest::Do(a, b)); }
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

template <typename F>
void VMap1(const OpArgs& x) {
  const D d;
  const auto* a = static_cast<const float*>(x.a);
  auto* dst = static_cast<float*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d)) hn::StoreU(F::Do(hn::LoadU(d, a + i)), d, dst + i);
}

template <typename F>
void VMap2(const OpArgs& x) {
  const D d;
  const auto* a = static_cast<const float*>(x.a);
  const auto* b = static_cast<const float*>(x.b);
  auto* dst = static_cast<float*>(x.dst);
  const size_t step = hn::Lanes(d);
  const auto one = [&](size_t i) {
    hn::StoreU(F::Do(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, dst + i);
  };
  size_t i = 0;
  for (; i + 4 * step <= x.n; i += 4 * step) {
    one(i);
    one(i + step);
    one(i + 2 * step);
    one(i + 3 * step);
  }
  for (; i < x.n; i += step) one(i);
}

inline void VFma(const OpArgs& x) {
  const D d;
  const auto* a = static_cast<const float*>(x.a);
  const auto* b = static_cast<const float*>(x.b);
  const auto* c = static_cast<const float*>(x.c);
  auto* dst = static_cast<float*>(x.dst);
  for (size_t i = 0; i < x.n; i += hn::Lanes(d))
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d,
               dst + i);
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
      return &VFma;
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
#endif  // HWY_NATIVE_FMA

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
