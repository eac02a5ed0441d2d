// SPDX-License-Identifier: Apache-2.0
// The VM's operations on blocks: dst[i] = op(a[i], b[i], c[i]) for i in [0, n), one function per op
// and type.
//
// There is one table per instruction set, all with the same bits: vectors where the processor has
// fused multiply-add, plain loops with std::fma where it has not. f32 operations work on whole
// vectors: they may read and write up to the next multiple of kVectorElements, so every block has
// room for that. Bool blocks hold bytes 0 and 1.
#ifndef KILN_EXEC_VM_OPS_H_
#define KILN_EXEC_VM_OPS_H_

#include <cstddef>
#include <cstdint>

#include "kiln/base/cpu_features.h"
#include "kiln/base/dtype.h"
#include "kiln/kernel/kernel.h"
#include "kiln/kernel/scalar_expr.h"

namespace kiln::vm {

inline constexpr size_t kVectorElements = 16;  // of f32, in the widest vectors

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

struct OpTable {
  // The function of a node that is neither a leaf, a cast nor a bit cast; null if the type has
  // none. `operand` is the type of the first operand (of the second for select and guard).
  OpFn (*find)(ScalarOp op, DType operand);
  // The same when the operands of `mask` (1: a, 2: b, 4: c) are one element instead of a block.
  // Here and below null means that the table has none, and the caller fills a block or takes
  // several steps.
  OpFn (*find_uniform)(ScalarOp op, DType operand, unsigned mask);
  // select(a < b, a, b), or with `greater` select(a < b, b, a), of f32.
  OpFn (*find_choice)(bool greater, unsigned mask);
  ReduceFns (*reduce)(ReduceOp op, DType type);
  OpFn half_to_float;  // u16 bits -> f32
  OpFn float_to_half;  // f32 -> u16 bits
  // dst[i] = fma(... fma(fma(c, a, k0), a, k1) ..., km): a polynomial in a; `b` points to imm
  // coefficients k.
  OpFn horner;
};

const OpTable& OpsFor(IsaLevel level);

// ---- The same code on every instruction set.

// A conversion as scalar_expr.h defines kCast. Never null for types that occur.
OpFn FindCast(DType from, DType to);

// The value of a reduction of nothing, as bits.
uint64_t EmptyValue(ReduceOp op, DType type);

// Rounding of f32 to 16-bit floats and back; and bytes to bools.
void BFloatToFloatBlock(const OpArgs& x);
void FloatToBFloatBlock(const OpArgs& x);
void NormaliseBool(const OpArgs& x);
OpFn FindRoundTo(DType aux);

// Moving elements of `size` 1, 2, 4 or 8 bytes.
void FillElements(size_t size, void* dst, const void* element, size_t n);
void GatherStrided(size_t size, void* dst, const void* src, int64_t stride,
                   size_t n);  // dst[i] = src[i * stride]
void ScatterStrided(size_t size, void* dst, int64_t stride, const void* src,
                    size_t n);  // dst[i * stride] = src[i]

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_OPS_H_
