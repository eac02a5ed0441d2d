// SPDX-License-Identifier: Apache-2.0
// Library operators: what Kiln does not generate itself, behind one table. Nothing outside this
// folder knows who computes.
//
// - matmul: A, B by numpy's rules (batch dims broadcast, rank-1 operands); trans_a and trans_b swap
//   the last two axes.
// - conv: x [N, C, D...], w [M, C/group, K...], optional bias [M]; strides, pads (all begins, then
//   all ends), dilations, group.
// - conv_transpose: likewise with w [C, M/group, K...] and output_padding (the output's shape
//   decides).
// - max_pool: x [N, C, D...]; kernel, strides, pads, dilations, ceil_mode; padding never wins, NaN
//   does.
// - average_pool: the same and count_include_pad.
// - conv_backward_weights: x, the cotangent of conv's result; kernel and the attributes of conv.
// - max_pool_backward: x, the cotangent; average_pool_backward: the cotangent. As of the pools.
// - matmul_integer, conv_integer, qlinear_conv: of u8 and i8 less zero points (integer_ops.h).
// - lookup: x of bytes, table [rows, 256] of bytes; axis.
//
// Operands may be strided views where the operator can use them (matmul, pools, channels-last for
// conv). f32 conv and matmul are oneDNN's or loops of ours; the rest is plain loops.
// Each operator has implementations in order of preference; the first that accepts a request
// computes it, and what the others said is kept for `kiln explain --library`.
//
// A Primitive is made for exact shapes and belongs to one plan; a Session is what all plans of a
// Model share: the pool, and constant weights that a primitive has packed into a layout of its own,
// one copy per layout.
#ifndef KILN_EXEC_LIBRARY_LIBRARY_H_
#define KILN_EXEC_LIBRARY_LIBRARY_H_

#include <array>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/library/primitive.h"

namespace kiln::library {

struct Implementation {
  const char* name = nullptr;
  MakeFn make = nullptr;
  bool post_ops = false;  // takes them; the others leave them to a loop that follows
};

struct Operator {
  const char* name;
  int min_inputs, max_inputs, outputs;
  std::array<Implementation, 7> implementations;  // the first that accepts computes; then nulls
  // The first axis of input 0 and of the output counts images, which are computed each by itself.
  bool by_images = false;
};

// Null for an unknown name.
const Operator* Find(absl::string_view name);

// Another order than that of the table.
struct Wish {
  absl::string_view first;  // the implementation that is asked before all others
  bool only = false;        // the others are not asked
  int64_t workspace_limit =
      0;  // bytes of scratch; who needs more computes only if nobody else does
};

// What no operator can do without: counts, operands that are there, post-ops that are known.
absl::Status CheckOperands(const Operator& op, const Request& request);

// Checks that, then makes the primitive.
// kInvalidArgument: operands that do not fit together; kUnimplemented: what no implementation
// takes.
absl::StatusOr<std::unique_ptr<Primitive>> Make(const Operator& op, const Request& request,
                                                const std::shared_ptr<Session>& session,
                                                const Wish& wish = {});

// oneDNN keeps the code of primitives that are gone, for others of the same shapes: it gives back
// what no primitive has. Thread-safe; who makes a primitive meanwhile may generate its code again.
void ForgetUnusedCode();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_LIBRARY_H_
