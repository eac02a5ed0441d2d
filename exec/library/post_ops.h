// SPDX-License-Identifier: Apache-2.0
// Post-ops: element-wise steps that follow an operator before its result is stored.
//
//   conv + {add [1, C, 1, 1]} + {relu}                    a folded batch norm and an activation
//   matmul + {add [1, n]} + {gelu_erf} + {add [m, n]}     bias, activation, residual
//
// They run in order on every element of the operator's output. `add` and `mul` read an operand: the
// inputs of a Request behind the operator's own are those operands, in order; each has the output's
// rank and broadcasts to it. All formulas are those of the op records (graph/ops/), in f32; a NaN
// stays a NaN through each of them.
#ifndef KILN_EXEC_LIBRARY_POST_OPS_H_
#define KILN_EXEC_LIBRARY_POST_OPS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// One row of the closed table of post-ops.
struct PostOpRule {
  const char* name;
  size_t numbers;  // how many PostOp::numbers it has
  bool operand;    // reads one of the Request's inputs
  float (*apply)(float x, float operand, const float* numbers);
  bool drops_nan;  // oneDNN's form may lose a NaN, and raises the invalid flag when it does
};

// Null for an unknown name.
const PostOpRule* FindPostOp(absl::string_view name);

// How many of the request's inputs are operands of post-ops.
size_t CountOperands(std::span<const PostOp> post_ops);

// kInvalidArgument unless every post-op is known, has its numbers, and finds an f32 operand that
// broadcasts to output 0. kUnimplemented if output 0 is not f32.
absl::Status CheckPostOps(const Request& request);

// The request of the operator alone: without post-ops and their operands.
Request WithoutPostOps(const Request& request);

// Runs `primitive`, which does `request` without its post-ops, then the post-ops as loops over the
// output. `primitive` itself if there are none.
std::unique_ptr<Primitive> WithPostOpLoops(std::unique_ptr<Primitive> primitive,
                                           const Request& request);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_POST_OPS_H_
