// SPDX-License-Identifier: Apache-2.0
// The head of a language model, a product with a large vocabulary and its cross-entropy, with
// gradients and without the logits in memory: they are made a chunk of the vocabulary at a time,
// once for the loss and once more for the gradients, as Cut Cross-Entropy (Wijmans et al., 2024)
// does.
//
//   forward   z = hidden * W_k^T [n, chunk];  running maximum, sum of exp(z - maximum), z[target]
//   backward  z = W_k * hidden^T [chunk, n];  g = (exp(z - log_sum) - (class == target)) / count
//             dW_k = g * hidden,  dhidden += g^T * W_k
//
// The two products are written from opposite sides, so that no pass takes one for the other and
// keeps it. Two chunks of logits are alive at once, and what a product copies of one; parts of the
// gradients are added, or written, where those lie. Of 128,256 classes, chunks of 352 take less
// than a hundredth of the memory of all logits.
#ifndef KILN_GRAPH_TRAINING_LINEAR_CROSS_ENTROPY_H_
#define KILN_GRAPH_TRAINING_LINEAR_CROSS_ENTROPY_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kiln/graph.h"

namespace kiln::training {

struct LinearCrossEntropyStep {
  ValueId loss;                              // the mean over places that count, or 0, []
  ValueId hidden_gradient, weight_gradient;  // of the loss
};

// A 360th of the classes, in whole lines of 64 bytes of f32 where there are enough; at least 1. The
// head then takes at most a hundredth of the memory of all logits.
int64_t SmallChunk(int64_t classes);

// `hidden` [n, h], `weight` [classes, h] of one float type, `target` [n] of integers, where places
// with `ignore_index` do not count. The number of classes is known, n need not be. Where rows of a
// chunk are no multiple of 64 bytes, chunks of the weight are copied. Without `chunk` it is
// SmallChunk of the classes. kInvalidArgument: shapes that
// do not fit, or a chunk below 1; and the builder's errors.
absl::StatusOr<LinearCrossEntropyStep> LinearCrossEntropy(GraphBuilder& b, ValueId hidden,
                                                          ValueId weight, ValueId target,
                                                          std::optional<int64_t> chunk = {},
                                                          std::optional<int64_t> ignore_index = {});

}  // namespace kiln::training

#endif  // KILN_GRAPH_TRAINING_LINEAR_CROSS_ENTROPY_H_
