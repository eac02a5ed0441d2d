// SPDX-License-Identifier: Apache-2.0
// This file is compiled once per instruction set by Highway's foreach_target: AVX-512, AVX2, and
// the least x86-64 has.
#include "exec/vm/ops.h"

#include "hwy/detect_targets.h"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/vm/ops.cc"
// First, so that what follows is compiled anew for each set.
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"

// The least set is for processors that no kernel is compiled for: small, not fast.
#if !HWY_NATIVE_FMA && defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#define KILN_SMALL
#endif
#include "exec/vm/casts-inl.h"
#include "exec/vm/loops-inl.h"
#include "exec/vm/moves-inl.h"
#include "exec/vm/step_table-inl.h"
#include "exec/vm/steps-inl.h"
#include "exec/vm/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {

OpFn Find(ScalarOp op, DType operand) {
  if (operand == DType::kBool && op == ScalarOp::kNot) return &Map1<NotBool, uint8_t, uint8_t>;
#if HWY_NATIVE_FMA
  if (operand == DType::kF32) {
    if (const OpFn fn = FindVector(op); fn != nullptr) return fn;
  }
#endif
  return WithType(operand, [op](auto zero) { return FindLoop<decltype(zero)>(op); });
}

OpFn FindCast(DType from, DType to) {
#if HWY_NATIVE_FMA
  if (from == DType::kF32 && to == DType::kU8) return &VToBytes<uint8_t>;
  if (from == DType::kF32 && to == DType::kI8) return &VToBytes<int8_t>;
#endif
  return Cast(from, to);
}

ReduceFns Reduce(ReduceOp op, DType type) {
  ReduceFns fns = WithType(type, [op](auto zero) { return FindReduce<decltype(zero)>(op); });
#if HWY_NATIVE_FMA
  if (type == DType::kF32) {
    switch (op) {
      case ReduceOp::kAdd:
        return VReduce<VAdd>(fns);
      case ReduceOp::kMul:
        return VReduce<VMul>(fns);
      case ReduceOp::kMax:
        return VReduce<VMax>(fns);
      case ReduceOp::kGreatest:
        return VReduce<VGreatest>(fns);
      case ReduceOp::kMin:
        return VReduce<VMin>(fns);
      default:
        break;
    }
  }
#endif
  return fns;
}

#if !HWY_NATIVE_FMA
StepFn FindStep(StepOp, DType, Where, Where, Where) { return {}; }
StepFn FindMove(StepMove, DType) { return {}; }
void RunStrip(const Step*, size_t, size_t) {}

void HalfToFloatLoop(const OpArgs& x) {
  for (size_t i = 0; i < x.n; ++i)
    static_cast<float*>(x.dst)[i] = HalfToFloat(static_cast<const uint16_t*>(x.a)[i]);
}

void FloatToHalfLoop(const OpArgs& x) {
  for (size_t i = 0; i < x.n; ++i)
    static_cast<uint16_t*>(x.dst)[i] = FloatToHalf(static_cast<const float*>(x.a)[i]);
}

void RoundToHalfLoop(const OpArgs& x) {
  for (size_t i = 0; i < x.n; ++i)
    static_cast<float*>(x.dst)[i] = HalfToFloat(FloatToHalf(static_cast<const float*>(x.a)[i]));
}
#endif

const OpTable& Table() {
#if HWY_NATIVE_FMA
  constexpr OpFn kHalfToFloat = &VHalfToFloat, kFloatToHalf = &VFloatToHalf,
                 kRoundToHalf = &VRoundToHalf;
#else
  constexpr OpFn kHalfToFloat = &HalfToFloatLoop, kFloatToHalf = &FloatToHalfLoop,
                 kRoundToHalf = &RoundToHalfLoop;
#endif
  static constexpr OpTable kTable = {
      .find = &Find,
      .find_step = &FindStep,
      .find_move = &FindMove,
      .run_strip = &RunStrip,
      .reduce = &Reduce,
      .cast = &FindCast,
      .half_to_float = kHalfToFloat,
      .float_to_half = kFloatToHalf,
      .bfloat_to_float = &BFloatToFloatBlock,
      .float_to_bfloat = &FloatToBFloatBlock,
      .round_to_half = kRoundToHalf,
      .round_to_bfloat = &RoundToBFloatBlock,
      .normalise_bool = &NormaliseBool,
      .fill = &Fill,
      .gather_strided = &GatherStrided,
      .gather = &GatherPattern,
      .scatter = &ScatterPattern,
      .store_lines = &StoreLines,
      .end_non_temporal = &hwy::FlushStream,
      .window = kWindow,
  };
  return kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();
#ifdef KILN_SMALL
#undef KILN_SMALL
#pragma GCC pop_options
#endif

#if HWY_ONCE
namespace kiln::vm {

const OpTable& OpsFor(IsaLevel level) {
  switch (level) {
    case IsaLevel::kV4:
      return N_AVX3::Table();
    case IsaLevel::kV3:
      return N_AVX2::Table();
    case IsaLevel::kBaseline:
      break;
  }
  return HWY_NAMESPACE::Table();
}

}  // namespace kiln::vm
#endif  // HWY_ONCE
