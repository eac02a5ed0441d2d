// SPDX-License-Identifier: Apache-2.0
// The VM's operations on blocks: dst[i] = op(a[i], b[i], c[i]) for i in [0, n), one function per op
// and type; and moves of blocks.
//
// There is one table per instruction set, all with the same bits: vectors where the processor has
// fused multiply-add, plain loops with std::fma where it has not. f32 operations work on whole
// vectors: they may read and write up to the next multiple of kVectorElements, so every block has
// room for that. Bool blocks hold bytes 0 and 1.
#ifndef KILN_EXEC_VM_OPS_H_
#define KILN_EXEC_VM_OPS_H_

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "base/dtype.h"
#include "exec/vm/step.h"
#include "kernel/kernel.h"
#include "kernel/scalar_expr.h"

namespace kiln::vm {

inline constexpr size_t kVectorElements = 16;  // correctness: of f32, in the widest vectors

struct OpArgs {
  void* dst;
  const void* a;
  const void* b;
  const void* c;
  size_t n;
  uint64_t imm;
};

// dst may be a, b or c exactly when their elements have one size.
using OpFn = void (*)(const OpArgs&);

// The parts of a reduction for one op and type; see kernel.h for the rule.
struct ReduceFns {
  OpFn lanes;     // dst[l] = op(dst[l], a[i]) for i = l, l + 64, ...: 64 lanes, a starts at lane 0
  OpFn fold;      // dst[0] = the 64 lanes of dst folded by halves
  OpFn sequence;  // dst[0] = op(... op(dst[0], a[0]) ..., a[n - 1])
  OpFn combine;   // dst[i] = op(a[i], b[i])
  // dst[r] = the lane rule for row r of n / imm rows of imm <= 512 elements; b: the identity
  OpFn rows;
};

struct Pattern;

struct OpTable {
  // The function of a node that is neither a leaf, a cast nor a bit cast; null if the type has
  // none. `operand` is the type of the first operand (of the second for select and guard).
  OpFn (*find)(ScalarOp op, DType operand);
  // Steps of strips; null where the table has none for these operands. `find_move` is for the types
  // in which operands lie in blocks.
  StepFn (*find_step)(StepOp op, DType operand, Where a, Where b, Where c);
  StepFn (*find_move)(StepMove move, DType type);
  // Takes elements [begin, end) of a block through the steps, which end with kEnd.
  void (*run_strip)(const Step* steps, size_t begin, size_t end);
  ReduceFns (*reduce)(ReduceOp op, DType type);
  // A conversion as scalar_expr.h defines kCast. Never null for types that occur.
  OpFn (*cast)(DType from, DType to);
  OpFn half_to_float;  // u16 bits -> f32
  OpFn float_to_half;  // f32 -> u16 bits
  OpFn bfloat_to_float, float_to_bfloat;
  OpFn round_to_half, round_to_bfloat;  // f32 -> f32
  OpFn normalise_bool;                  // bytes -> bytes 0 and 1

  // Moving n elements of `size` 1, 2, 4 or 8 bytes.
  void (*fill)(size_t size, void* dst, const void* element, size_t n);
  // dst[i] = src[i * stride]
  void (*gather_strided)(size_t size, void* dst, const void* src, int64_t stride, size_t n);
  // The elements of a pattern (tile.h) from `base` to `own`, and back.
  void (*gather)(size_t size, void* own, const uint8_t* base, const Pattern& pattern, size_t n);
  void (*scatter)(size_t size, uint8_t* base, const Pattern& pattern, const void* own, size_t n);
  // Copies whole lines to where a line begins, around the caches.
  void (*store_lines)(void* dst, const void* src, size_t bytes);
  // Waits until what this thread wrote around the caches can be seen by others.
  void (*end_non_temporal)();
  size_t window;  // elements of four bytes in a vector for Pattern::windows; 0: not used
};

const OpTable& OpsFor(IsaLevel level);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_OPS_H_
