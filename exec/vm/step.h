// SPDX-License-Identifier: Apache-2.0
// Steps of strips: operations that keep what is between them in processor registers.
//
// A strip is a list of steps that a few vectors of a block go through from the first to the last,
// then the next few. There are two accumulators, A and B, each of these few vectors; a step leaves
// its result in A and takes operands from A, B, blocks, or one element that stands for a block:
//   load x        A = x             add A, k     A = A + k
//   keep          B = A             fma A, B, k  A = A * B + k
//   store y       y = A             end
// What is needed again and fits in neither accumulator waits in a slot: memory for an accumulator,
// which the next vectors take again and which therefore stays in the nearest cache. Steps call each
// other with the accumulators as arguments.
//
// Lanes have 32 bits: f32, i32 and u32 as they are, narrower integers extended, 16-bit floats as
// the f32 of the same value, bools as all ones or zeros. Blocks have the types' own sizes.
#ifndef KILN_EXEC_VM_STEP_H_
#define KILN_EXEC_VM_STEP_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernel/scalar_expr.h"

namespace kiln::vm {

enum class StepOp : uint8_t {
  kNone,
  // f32. kLesser is select(a < b, a, b) and kGreater select(a < b, b, a): how clamps are written.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kLesser,
  kGreater,
  kFma,
  kNeg,
  kAbs,
  kSqrt,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kEq,
  kNe,
  kLt,
  kLe,
  kIsNan,
  // i32, u32 and, bit by bit, bools.
  kAddInt,
  kSubInt,
  kMulInt,
  kShl,
  kShr,
  kShrUnsigned,
  kEqInt,
  kLtInt,
  kLeInt,
  kAnd,
  kOr,
  kXor,
  kNot,
  // a ? b : c
  kSelect,
  // Conversions.
  kSame,
  kIntToFloat,
  kFloatToInt,
  kFloatToU8,
  kFloatToI8,
  kBoolToFloat,
  kBoolToInt,
  kFloatToBool,
  kIntToBool,
  kRoundToHalf,
  kRoundToBFloat,
};

enum class StepMove : uint8_t {
  kLoad,         // A = x
  kLoadOne,      // A = x, one element
  kLoadSlot,     // A = x, a slot
  kTake,         // A = B
  kKeep,         // B = A
  kStore,        // x = A
  kStoreEnd,     // the same, and end
  kNonTemporal,  // x = A around the caches, where x is aligned to lines
  kNonTemporalEnd,
  kSave,      // x = A, a slot
  kSaveKept,  // x = B, a slot
  kEnd,
};

// Where an operand is: in an accumulator, or in memory as a block, in a slot, or as one element.
enum class Where : uint8_t { kA, kB, kBlock, kSlot, kOne };
inline constexpr bool InMemory(Where where) { return where >= Where::kBlock; }

// Bytes of a slot.
inline constexpr size_t kSlotBytes = 256;  // correctness

// The code of a step, for a few vectors and for one; known to the instruction set's own file only.
struct StepFn {
  void (*wide)() = nullptr;
  void (*narrow)() = nullptr;
};

// A step with the addresses of its operands in memory, in their order.
struct Step {
  StepFn fn;
  const void* x = nullptr;
  const void* y = nullptr;
};

// The step that is `op` on operands of type `operand` (the second's for select), or kNone.
StepOp StepOpOf(ScalarOp op, DType operand);
// The step that converts, or kNone. Both types may be 16-bit floats.
StepOp StepCast(DType from, DType to);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_STEP_H_
