// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/step.h"

namespace kiln::vm {
namespace {

StepOp FloatOp(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
      return StepOp::kAdd;
    case ScalarOp::kSub:
      return StepOp::kSub;
    case ScalarOp::kMul:
      return StepOp::kMul;
    case ScalarOp::kDiv:
      return StepOp::kDiv;
    case ScalarOp::kMin:
      return StepOp::kMin;
    case ScalarOp::kMax:
      return StepOp::kMax;
    case ScalarOp::kFma:
      return StepOp::kFma;
    case ScalarOp::kNeg:
      return StepOp::kNeg;
    case ScalarOp::kAbs:
      return StepOp::kAbs;
    case ScalarOp::kSqrt:
      return StepOp::kSqrt;
    case ScalarOp::kFloor:
      return StepOp::kFloor;
    case ScalarOp::kCeil:
      return StepOp::kCeil;
    case ScalarOp::kRound:
      return StepOp::kRound;
    case ScalarOp::kTrunc:
      return StepOp::kTrunc;
    case ScalarOp::kEq:
      return StepOp::kEq;
    case ScalarOp::kNe:
      return StepOp::kNe;
    case ScalarOp::kLt:
      return StepOp::kLt;
    case ScalarOp::kLe:
      return StepOp::kLe;
    case ScalarOp::kIsNan:
      return StepOp::kIsNan;
    default:
      return StepOp::kNone;
  }
}

StepOp BitsOp(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAnd:
      return StepOp::kAnd;
    case ScalarOp::kOr:
      return StepOp::kOr;
    case ScalarOp::kXor:
      return StepOp::kXor;
    case ScalarOp::kNot:
      return StepOp::kNot;
    default:
      return StepOp::kNone;
  }
}

StepOp IntOp(ScalarOp op, bool is_signed) {
  switch (op) {
    case ScalarOp::kAdd:
      return StepOp::kAddInt;
    case ScalarOp::kSub:
      return StepOp::kSubInt;
    case ScalarOp::kMul:
      return StepOp::kMulInt;
    case ScalarOp::kShl:
      return StepOp::kShl;
    case ScalarOp::kShr:
      return is_signed ? StepOp::kShr : StepOp::kShrUnsigned;
    case ScalarOp::kEq:
      return StepOp::kEqInt;
    case ScalarOp::kLt:
      return is_signed ? StepOp::kLtInt : StepOp::kNone;
    case ScalarOp::kLe:
      return is_signed ? StepOp::kLeInt : StepOp::kNone;
    default:
      return BitsOp(op);
  }
}

bool IsNarrowInt(DType type) {
  return type == DType::kU8 || type == DType::kI8 || type == DType::kU16 || type == DType::kI16;
}

StepOp CastOfFloat(DType to) {
  switch (to) {
    case DType::kI32:
      return StepOp::kFloatToInt;
    case DType::kU8:
      return StepOp::kFloatToU8;
    case DType::kI8:
      return StepOp::kFloatToI8;
    case DType::kBool:
      return StepOp::kFloatToBool;
    case DType::kF16:
      return StepOp::kRoundToHalf;
    case DType::kBF16:
      return StepOp::kRoundToBFloat;
    default:
      return StepOp::kNone;
  }
}

}  // namespace

StepOp StepOpOf(ScalarOp op, DType operand) {
  if (op == ScalarOp::kSelect || op == ScalarOp::kGuard)
    return SizeOf(operand) == 4 ? StepOp::kSelect : StepOp::kNone;
  if (operand == DType::kF32) return FloatOp(op);
  if (operand == DType::kI32 || operand == DType::kU32) return IntOp(op, operand == DType::kI32);
  return operand == DType::kBool ? BitsOp(op) : StepOp::kNone;
}

StepOp StepCast(DType from, DType to) {
  if (from == DType::kF32) return CastOfFloat(to);
  if (from == DType::kF16 || from == DType::kBF16)
    return to == DType::kF32 ? StepOp::kSame : StepOp::kNone;
  if (from == DType::kBool) {
    if (to == DType::kF32) return StepOp::kBoolToFloat;
    return to == DType::kI32 || IsNarrowInt(to) ? StepOp::kBoolToInt : StepOp::kNone;
  }
  if (from != DType::kI32 && !IsNarrowInt(from)) return StepOp::kNone;
  if (to == DType::kF32) return StepOp::kIntToFloat;
  if (to == DType::kBool) return StepOp::kIntToBool;
  return to == DType::kI32 ? StepOp::kSame : StepOp::kNone;
}

}  // namespace kiln::vm
