// SPDX-License-Identifier: Apache-2.0
// Mixed precision: products in 16 bits, all else in f32, as transforms of a forward graph and of
// its loss.
//
//   y : f32 [n, m] = matmul(x, w)        x16 : bf16 [n, k] = cast(x) {to = bf16}
//                                        w16 : bf16 [k, m] = cast(w) {to = bf16}
//                                        y16 : bf16 [n, m] = matmul(x16, w16)
//                                        y : f32 [n, m] = cast(y16) {to = f32}
//
// Differentiated, cotangents go through the same casts: their products are of 16 bits, too, and the
// gradient of a parameter is f32, as the parameter (its master copy) is. f16 has so little range
// that gradients vanish in it: the loss is multiplied by a number, and the gradients are divided by
// it. Where one of them is not finite the number was too large, and the step is left out.
#ifndef KILN_GRAPH_GRADIENT_MIXED_PRECISION_H_
#define KILN_GRAPH_GRADIENT_MIXED_PRECISION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln {

// `graph` with its f32 products (matmul, gemm, conv, conv_transpose) in `type`, f16 or bf16.
// Inputs, outputs and names of values stay.
absl::StatusOr<Graph> WithProductsIn(const Graph& graph, DType type);

struct ScaledGradients {
  std::vector<ValueId> gradients;
  ValueId finite;  // bool []: whether all elements of all gradients are
};

// Gradients (kiln/gradients.h) by way of `loss` times `scale`, an f32 of one element.
absl::StatusOr<ScaledGradients> GradientsScaledBy(GraphBuilder& b, ValueId scale, ValueId loss,
                                                  const std::vector<ValueId>& wrt);

}  // namespace kiln

#endif  // KILN_GRAPH_GRADIENT_MIXED_PRECISION_H_
