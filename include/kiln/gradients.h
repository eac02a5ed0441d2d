// SPDX-License-Identifier: Apache-2.0
// Gradients: differentiates what a GraphBuilder has, in reverse mode, into nodes of the same graph.
//
//   kiln::ValueId square = b.Op("mul", {error, error});
//   kiln::ValueId loss = b.Op("reduce_mean", {square}, {{"keepdims", int64_t{0}}});
//   absl::StatusOr<std::vector<kiln::ValueId>> d = kiln::Gradients(b, loss, {weight, bias});
//   b.Output(b.Op("sub", {weight, b.Op("mul", {rate, (*d)[0]})}), "new_weight");
//
// Operators and what their gradients are at kinks and ties: docs/gradients.md, or `kiln ops
// --gradients`. The operator "stop_gradient" gives its input and no gradient goes through it.
#ifndef KILN_GRADIENTS_H_
#define KILN_GRADIENTS_H_

#include <vector>

#include "kiln/graph.h"
#include "kiln/status.h"

namespace kiln {

// The gradients of `loss`, a float of one element, with respect to each value of `wrt`, of its type
// and shape; zeros where the loss does not depend on it. kInvalidArgument: a value is not of
// floats, or the loss has more than one element. kUnimplemented: a node on the way has no gradient;
// the error names it and says why. Where the builder's graph assumes something about its symbols,
// the gradients assume it too, and inputs that break it are an error when they are run.
// Thread-compatible.
KILN_API absl::StatusOr<std::vector<ValueId>> Gradients(GraphBuilder& b, ValueId loss,
                                                        const std::vector<ValueId>& wrt);

}  // namespace kiln

#endif  // KILN_GRADIENTS_H_
