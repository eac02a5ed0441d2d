// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of graphs, into graphs: what comes out is made of the operators of
// the registry, and is optimised, fused, planned, printed and differentiated again like any other.
//
//   input x : f32 [n]                          output loss, and d loss / d x:
//   y : f32 [n] = exp(x)                       g : f32 [] = 1
//   loss : f32 [] = reduce_sum(y)              dy : f32 [n] = expand(g) {shape = [n]}
//                                              dx : f32 [n] = mul(dy, y)
//
// A node's gradient is its record's rule (GradientSlot), or follows from the record's body:
//   scalar      the derivative of its ScalarExpr (scalar_rules.h), as nodes; summed over the axes
//               along which an operand was repeated
//   reduce      from the ReduceRule: its maps as scalar, its op as sum, extremum or product
//   index       the transpose of its IndexMap (index_body.cc): slice <-> pad, expand <-> sum,
//               concat <-> slice, gather <-> scatter with ordered sums, views <-> views
//   composite   that of its decomposition
// Cotangents have the type of their value; 16-bit floats are computed in f32 in between. Cotangents
// of a value that several nodes read are added, the last reader's first: the order is the graph's,
// and so are the bits. docs/gradients.md has kinks and ties.
#ifndef KILN_GRAPH_GRADIENT_GRADIENTS_H_
#define KILN_GRAPH_GRADIENT_GRADIENTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/gradients.h"
#include "kiln/graph.h"

namespace kiln {

// `graph` with outputs `loss` and, for each value of `wrt`, the gradient of the loss: "d_" and the
// value's name, of its type and shape; zeros where the loss does not depend on it. `loss` is a
// float of one element, `wrt` are floats: inputs, constants or what nodes give. Errors name the
// node: kUnimplemented where one on the way has no gradient. Made for other extents, the result is
// differentiated again (Graph::maker): guards of the forward graph decide about its gradient, too.
absl::StatusOr<Graph> Gradients(const Graph& graph, ValueId loss, const std::vector<ValueId>& wrt);

namespace gradient {

// Adds to `b` what gives the cotangents of `wrt` from those of `outputs` (invalid: zero), by way of
// the nodes that were there from `first` on. An invalid id in the result is a zero.
absl::StatusOr<std::vector<ValueId>> Backward(GraphBuilder& b, size_t first,
                                              const std::vector<ValueId>& outputs,
                                              const std::vector<ValueId>& cotangents,
                                              const std::vector<ValueId>& wrt);

// Where the gradient of a record comes from: "formula", "reduction", "index map", "decomposition",
// "rule", or "none".
const char* SourceOf(const OpDef& op);

}  // namespace gradient
}  // namespace kiln

#endif  // KILN_GRAPH_GRADIENT_GRADIENTS_H_
