// SPDX-License-Identifier: Apache-2.0
// The table of steps: which function does an operation with its operands where they are.
#if defined(KILN_EXEC_VM_STEP_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KILN_EXEC_VM_STEP_TABLE_INL_H_
#undef KILN_EXEC_VM_STEP_TABLE_INL_H_
#else
#define KILN_EXEC_VM_STEP_TABLE_INL_H_
#endif

#include "exec/vm/step.h"
#include "exec/vm/steps-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kiln::vm {
namespace HWY_NAMESPACE {

#if HWY_NATIVE_FMA
// With an operand in A, the other anywhere; or with a block and another or one element.
template <typename F, DType kType = DType::kF32>
StepFn FindBinary(Where a, Where b) {
  using enum Where;
  if (a == kA) {
    switch (b) {
      case kA:
        return Make<BinaryStep<F, kA, kA, kType>>();
      case kB:
        return Make<BinaryStep<F, kA, kB, kType>>();
      case kBlock:
        return Make<BinaryStep<F, kA, kBlock, kType>>();
      case kSlot:
        return Make<BinaryStep<F, kA, kSlot, kType>>();
      case kOne:
        return Make<BinaryStep<F, kA, kOne, kType>>();
    }
  }
  if (b == kA) {
    switch (a) {
      case kB:
        return Make<BinaryStep<F, kB, kA, kType>>();
      case kBlock:
        return Make<BinaryStep<F, kBlock, kA, kType>>();
      case kSlot:
        return Make<BinaryStep<F, kSlot, kA, kType>>();
      default:
        return Make<BinaryStep<F, kOne, kA, kType>>();
    }
  }
  if (a == kBlock && b == kBlock) return Make<BinaryStep<F, kBlock, kBlock, kType>>();
  if (a == kBlock && b == kOne) return Make<BinaryStep<F, kBlock, kOne, kType>>();
  if (a == kOne && b == kBlock) return Make<BinaryStep<F, kOne, kBlock, kType>>();
  return {};
}

template <typename F, Where kX, Where kY>
StepFn FindThird(Where c) {
  switch (c) {
    case Where::kA:
      return Make<TernaryStep<F, kX, kY, Where::kA>>();
    case Where::kB:
      return Make<TernaryStep<F, kX, kY, Where::kB>>();
    case Where::kBlock:
      return Make<TernaryStep<F, kX, kY, Where::kBlock>>();
    case Where::kSlot:
      return Make<TernaryStep<F, kX, kY, Where::kSlot>>();
    default:
      return Make<TernaryStep<F, kX, kY, Where::kOne>>();
  }
}

// With a sum or condition in kZ.
template <typename F, Where kX, Where kZ>
StepFn FindSecond(Where b) {
  switch (b) {
    case Where::kB:
      return Make<TernaryStep<F, kX, Where::kB, kZ>>();
    case Where::kBlock:
      return Make<TernaryStep<F, kX, Where::kBlock, kZ>>();
    case Where::kSlot:
      return Make<TernaryStep<F, kX, Where::kSlot, kZ>>();
    default:
      return Make<TernaryStep<F, kX, Where::kOne, kZ>>();
  }
}

// Factors are given in the order of Where.
inline StepFn FindFma(Where a, Where b, Where c) {
  using enum Where;
  if (a == kA) {
    if (b == kA) return FindThird<SFma, kA, kA>(c);
    if (b == kB) return FindThird<SFma, kA, kB>(c);
    if (b == kBlock) return FindThird<SFma, kA, kBlock>(c);
    if (b == kSlot) return FindThird<SFma, kA, kSlot>(c);
    return FindThird<SFma, kA, kOne>(c);
  }
  if (c != kA) return {};
  if (a == kB) return FindSecond<SFma, kB, kA>(b);
  if (a == kBlock) return FindSecond<SFma, kBlock, kA>(b);
  if (a == kSlot) return FindSecond<SFma, kSlot, kA>(b);
  return FindSecond<SFma, kOne, kA>(b);
}

// The condition is in A or, when one of the others is in A, in B.
inline StepFn FindSelect(Where a, Where b, Where c) {
  using enum Where;
  if (a == kA) {
    if (b == kB) return FindThird<SSelect, kA, kB>(c);
    if (b == kBlock) return FindThird<SSelect, kA, kBlock>(c);
    if (b == kSlot) return FindThird<SSelect, kA, kSlot>(c);
    return FindThird<SSelect, kA, kOne>(c);
  }
  if (a != kB || (b != kA && c != kA)) return {};
  return b == kA ? FindThird<SSelect, kB, kA>(c) : FindSecond<SSelect, kB, kA>(b);
}

inline StepFn FindFloatStep(StepOp op, Where a, Where b) {
  switch (op) {
    case StepOp::kAdd:
      return FindBinary<VAdd>(a, b);
    case StepOp::kSub:
      return FindBinary<VSub>(a, b);
    case StepOp::kMul:
      return FindBinary<VMul>(a, b);
    case StepOp::kDiv:
      return FindBinary<VDiv>(a, b);
    case StepOp::kMin:
      return FindBinary<VMin>(a, b);
    case StepOp::kMax:
      return FindBinary<VMax>(a, b);
    case StepOp::kLesser:
      return FindBinary<VLesser>(a, b);
    case StepOp::kGreater:
      return FindBinary<VGreater>(a, b);
    case StepOp::kEq:
      return FindBinary<SEq>(a, b);
    case StepOp::kNe:
      return FindBinary<SNe>(a, b);
    case StepOp::kLt:
      return FindBinary<SLt>(a, b);
    case StepOp::kLe:
      return FindBinary<SLe>(a, b);
    default:
      return {};
  }
}

inline StepFn FindIntStep(StepOp op, Where a, Where b) {
  switch (op) {
    case StepOp::kAddInt:
      return FindBinary<SAddInt>(a, b);
    case StepOp::kSubInt:
      return FindBinary<SSubInt>(a, b);
    case StepOp::kMulInt:
      return FindBinary<SMulInt>(a, b);
    case StepOp::kShl:
      return FindBinary<SShl>(a, b);
    case StepOp::kShr:
      return FindBinary<SShr>(a, b);
    case StepOp::kShrUnsigned:
      return FindBinary<SShrUnsigned>(a, b);
    case StepOp::kEqInt:
      return FindBinary<SEqInt>(a, b);
    case StepOp::kLtInt:
      return FindBinary<SLtInt>(a, b);
    case StepOp::kLeInt:
      return FindBinary<SLeInt>(a, b);
    case StepOp::kAnd:
      return FindBinary<SAnd>(a, b);
    case StepOp::kOr:
      return FindBinary<SOr>(a, b);
    case StepOp::kXor:
      return FindBinary<SXor>(a, b);
    default:
      return {};
  }
}

inline StepFn FindBoolStep(StepOp op, Where a, Where b) {
  switch (op) {
    case StepOp::kAnd:
      return FindBinary<SAnd, DType::kBool>(a, b);
    case StepOp::kOr:
      return FindBinary<SOr, DType::kBool>(a, b);
    case StepOp::kXor:
      return FindBinary<SXor, DType::kBool>(a, b);
    default:
      return {};
  }
}

inline StepFn FindUnary(StepOp op) {
  switch (op) {
    case StepOp::kNeg:
      return Make<UnaryStep<VNeg>>();
    case StepOp::kAbs:
      return Make<UnaryStep<VAbs>>();
    case StepOp::kSqrt:
      return Make<UnaryStep<VSqrt>>();
    case StepOp::kFloor:
      return Make<UnaryStep<VFloor>>();
    case StepOp::kCeil:
      return Make<UnaryStep<VCeil>>();
    case StepOp::kRound:
      return Make<UnaryStep<VRound>>();
    case StepOp::kTrunc:
      return Make<UnaryStep<VTrunc>>();
    case StepOp::kIsNan:
      return Make<UnaryStep<SIsNan>>();
    case StepOp::kNot:
      return Make<UnaryStep<SNot>>();
    case StepOp::kSame:
      return Make<UnaryStep<SSame>>();
    case StepOp::kIntToFloat:
      return Make<UnaryStep<SIntToFloat>>();
    case StepOp::kFloatToInt:
      return Make<UnaryStep<SFloatToInt>>();
    case StepOp::kFloatToU8:
      return Make<UnaryStep<SFloatToByte<0, 255>>>();
    case StepOp::kFloatToI8:
      return Make<UnaryStep<SFloatToByte<-128, 127>>>();
    case StepOp::kBoolToFloat:
      return Make<UnaryStep<SBoolToFloat>>();
    case StepOp::kBoolToInt:
      return Make<UnaryStep<SBoolToInt>>();
    case StepOp::kFloatToBool:
      return Make<UnaryStep<SFloatToBool>>();
    case StepOp::kIntToBool:
      return Make<UnaryStep<SIntToBool>>();
    case StepOp::kRoundToHalf:
      return Make<UnaryStep<SRoundToHalf>>();
    case StepOp::kRoundToBFloat:
      return Make<UnaryStep<SRoundToBFloat>>();
    default:
      return {};
  }
}

inline StepFn FindStep(StepOp op, DType operand, Where a, Where b, Where c) {
  if (op == StepOp::kFma) return FindFma(a, b, c);
  if (op == StepOp::kSelect) return FindSelect(a, b, c);
  if (operand == DType::kBool) {
    if (const StepFn fn = FindBoolStep(op, a, b); fn.wide != nullptr) return fn;
  }
  if (const StepFn fn = FindFloatStep(op, a, b); fn.wide != nullptr) return fn;
  if (const StepFn fn = FindIntStep(op, a, b); fn.wide != nullptr) return fn;
  return a == Where::kA ? FindUnary(op) : StepFn{};
}

// Whether the elements of a vector are as much as one non-temporal store writes.
template <DType kType>
inline constexpr bool kNonTemporalType =
    kType == DType::kF32 || HWY_MAX_BYTES / sizeof(float) * sizeof(NarrowZero<kType>()) >= 16;

template <DType kType>
StepFn MoveOf(StepMove move) {
  switch (move) {
    case StepMove::kLoad:
      return Make<LoadStep<Where::kBlock, kType>>();
    case StepMove::kLoadOne:
      return Make<LoadStep<Where::kOne, kType>>();
    case StepMove::kLoadSlot:
      return Make<LoadStep<Where::kSlot, DType::kF32>>();
    case StepMove::kStore:
      return Make<StoreStep<kType>>();
    case StepMove::kStoreEnd:
      return MakeLast<StoreStep<kType>>();
    case StepMove::kNonTemporal:
      if constexpr (kNonTemporalType<kType>) return Make<NonTemporalStep<kType>>();
      return {};
    case StepMove::kNonTemporalEnd:
      if constexpr (kNonTemporalType<kType>) return MakeLast<NonTemporalStep<kType>>();
      return {};
    case StepMove::kSave:
      return Make<SaveStep<false>>();
    case StepMove::kSaveKept:
      return Make<SaveStep<true>>();
    case StepMove::kTake:
      return Make<LoadStep<Where::kB, DType::kF32>>();
    case StepMove::kKeep:
      return Make<KeepStep>();
    case StepMove::kEnd:
      break;
  }
  return {reinterpret_cast<void (*)()>(&WideEnd), reinterpret_cast<void (*)()>(&NarrowEnd)};
}

inline StepFn FindMove(StepMove move, DType type) {
  switch (type) {
    case DType::kBool:
      return MoveOf<DType::kBool>(move);
    case DType::kU8:
      return MoveOf<DType::kU8>(move);
    case DType::kI8:
      return MoveOf<DType::kI8>(move);
    case DType::kU16:
      return MoveOf<DType::kU16>(move);
    case DType::kI16:
      return MoveOf<DType::kI16>(move);
    case DType::kF16:
      return MoveOf<DType::kF16>(move);
    case DType::kBF16:
      return MoveOf<DType::kBF16>(move);
    default:
      return MoveOf<DType::kF32>(move);
  }
}
#endif  // HWY_NATIVE_FMA

}  // namespace HWY_NAMESPACE
}  // namespace kiln::vm
HWY_AFTER_NAMESPACE();

#endif
