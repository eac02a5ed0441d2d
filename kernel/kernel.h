// SPDX-License-Identifier: Apache-2.0
// A Kernel says what one fused group computes, free of the graph it came from.
//
// It is a list of stages over named dims. Example: softmax of scale * x + mask over the last axis
//   kernel v1 math 1
//   dims a b
//   in   0 f32 [a, b] dense
//   in   1 f32 [b] dense
//   par  0 f32
//   s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])
//   s1 : f32 [a]    = reduce max over b (s0[a, b])
//   s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))
//   s3 : f32 [a]    = reduce add over b (s2[a, b])
//   s4 : f32 [a]    = div(1, s3[a])
//   out  0 f32 [a, b] dense = mul(s2[a, b], s4[a])
//
// The text defines the bits of the result (strict mode): IEEE arithmetic as in scalar_expr.h,
// functions by their expansions (math.h), and reductions by the rule below. Extents are run-time
// arguments and no part of the text.
//
// Sums at places that data choose. An output whose root is add_at takes each element of the
// iteration space where its index says, as the gradient of rows that were looked up does:
//   dims a b
//   sizes n0
//   in   0 i64 [a] dense
//   in   1 f32 [a, b] dense
//   out  0 f32 [n0, b] dense = add_at[[in0[a]], b](in1[a, b])
// An axis of it is an iterated dim, at its own coordinate, or a size, at a loaded index
// (scalar_expr.h: negative ones count from the end, and all are clamped). Elements start at +0, and
// what goes to one of them is added in the row-major order of the iterated dims.
//
// Invariants (Verify): dims of an operand, stage or output are distinct; a stage reads inputs and
// earlier stages only; a stage's and an output's dims, and a reduction's `over`, are iterated dims
// in ascending order (outputs: any order); an output's type is that of its expression, or f16/bf16
// of an f32 expression; every read has one index per axis; an output of add_at is the only one,
// dense, of its expression's type, which has 32 or 64 bits, and has a loaded axis.
//
// The meaning of a reduction. Reduced dims are taken one at a time, innermost (largest id) first:
//   - the innermost iterated dim of the Kernel: block k holds elements [4096k, 4096k + 4096). In a
//     block, lane l of 64 combines elements l, l + 64, ... in order; lanes fold by halves: lane l
//     with lane l + 32, then 16, 8, 4, 2, 1.
//   - any other dim: blocks of 32 elements, each combined in order.
//   Block results, in order, are reduced by the same rule again until one is left. Accumulators
//   start at the exact identity (-0 for float add, 0 for integer add, 1, -inf or least, +inf or
//   greatest, true or all ones, false or 0), which absent elements equal.
//   acc = combine(acc, element), in this operand order; a fold is combine(lane l, lane l + w).
//   An empty reduction gives the identity, except float add: +0.
// Nothing in this rule depends on threads, vector width or schedule. Lowering places dims so that
// it is the order that operand and axes of the operator say (fusion/reduction_runs.h).
#ifndef KILN_KERNEL_KERNEL_H_
#define KILN_KERNEL_KERNEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "kernel/scalar_expr.h"

namespace kiln {

inline constexpr int kMathVersion = 1;
inline constexpr int64_t kReduceBlock = 4096;     // innermost dim: elements per block
inline constexpr int64_t kReduceLanes = 64;       // innermost dim: lanes per block
inline constexpr int64_t kOuterReduceBlock = 32;  // any other dim: elements per block

// An iterated dim spans the iteration space; a size is only an extent (of an operand's axis, or in
// index arithmetic). Iterated dims come first, outermost first; sizes follow. Canonical names are
// a, b, c, ... and n0, n1, ...
struct KernelDim {
  std::string name;
  bool iterated = true;
};

// Where elements of an operand lie. Inner stride class is a fact of the text, strides are not.
enum class Layout : uint8_t {
  kDense,    // row-major, no gaps
  kRows,     // innermost axis has stride 1, the others have run-time strides
  kStrided,  // all strides at run time
};

struct KernelInput {
  DType type = DType::kF32;
  std::vector<int32_t> dims;  // axis -> dim (iterated or size), outermost first
  Layout layout = Layout::kDense;
  friend bool operator==(const KernelInput&, const KernelInput&) = default;
};

// kGreatest is a > b ? a : b: kMax, but NaN may be lost. It is in no text: ExpandMath makes it of a
// kMax where NaN shows without it (nan_check_elision.h).
enum class ReduceOp : uint8_t { kAdd, kMul, kMax, kMin, kAnd, kOr, kGreatest };
const char* Name(ReduceOp op);

struct Stage {
  enum class Kind : uint8_t { kMap, kReduce };
  Kind kind = Kind::kMap;
  DType type = DType::kF32;   // of the result; never f16 or bf16
  std::vector<int32_t> dims;  // of the result, ascending
  ReduceOp op = ReduceOp::kAdd;
  std::vector<int32_t> over;  // kReduce: reduced dims, ascending; disjoint from `dims`
  ScalarExpr expr;            // kReduce: the element, over dims and over
  friend bool operator==(const Stage&, const Stage&) = default;
};

struct KernelOutput {
  DType type = DType::kF32;
  // Axis -> iterated dim, outermost first; any order: transposed store. Of add_at: or a size.
  std::vector<int32_t> dims;
  Layout layout = Layout::kDense;
  ScalarExpr expr;
  bool adds() const {  // its root is add_at
    return expr.root() >= 0 && static_cast<size_t>(expr.root()) < expr.nodes().size() &&
           expr.node(expr.root()).op == ScalarOp::kAddAt;
  }
  friend bool operator==(const KernelOutput&, const KernelOutput&) = default;
};

struct Kernel {
  int math = kMathVersion;
  std::vector<KernelDim> dims;
  std::vector<KernelInput> inputs;
  std::vector<DType> params;  // scalar operands; never f16 or bf16
  std::vector<Stage> stages;
  std::vector<KernelOutput> outputs;

  int num_iterated() const;
  // The innermost iterated dim: the one with the lane rule. -1 if there is none.
  int innermost() const { return num_iterated() - 1; }
};

// The dims that an output is computed over: its own, or all iterated ones where it adds.
std::vector<int32_t> LoopDims(const Kernel& kernel, const KernelOutput& output);

// True if an output of the kernel adds; it is the only one then.
bool Scatters(const Kernel& kernel);

// Checks the invariants above; the error names the offending line. Thread-safe, as all free
// functions here.
absl::Status Verify(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_KERNEL_KERNEL_H_
