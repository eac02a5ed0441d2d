// SPDX-License-Identifier: Apache-2.0
// Losses as graph code, each in the form whose gradient is stable and fuses: no element is looked
// up or scattered, no logarithm meets a rounded probability. Formulas are those of
// torch.nn.functional. 16-bit floats are computed in f32 and rounded once, at the end. Errors are
// the builder's.
#ifndef KILN_GRAPH_TRAINING_LOSSES_H_
#define KILN_GRAPH_TRAINING_LOSSES_H_

#include <cstdint>
#include <optional>

#include "kiln/graph.h"

namespace kiln::training {

enum class LossReduction : uint8_t { kNone, kSum, kMean };

struct CrossEntropyOptions {
  ValueId weight;                            // of each class, [C]; absent: 1
  std::optional<int64_t> ignore_index = {};  // places with this class do not count
  double label_smoothing = 0;                // the target's share that goes to all classes evenly
  LossReduction reduction = LossReduction::kMean;
};
// -log softmax(logits)[target]. Logits [N, C, ...]; targets are classes, integers of shape
// [N, ...], or probabilities, floats of the shape of the logits. The mean is over the weights of
// the classes that count, 0 where none does (torch: NaN), or over all places for probabilities.
// With z = x - max(x):
//
//   log(sum(exp(z))) - sum(where(coordinate == target, z, 0))       over the classes, in one pass
//
// so that the gradient is softmax(x) less the target, element by element.
ValueId CrossEntropy(GraphBuilder& b, ValueId logits, ValueId target,
                     const CrossEntropyOptions& options = {});

// (x - y)^2
ValueId MeanSquaredError(GraphBuilder& b, ValueId x, ValueId y,
                         LossReduction reduction = LossReduction::kMean);

// -(p y log(s) + (1 - y) log(1 - s)), s = sigmoid(x), for targets y of [0, 1], as
// (1 - y) x + (1 + (p - 1) y) softplus(-x). `positive_weight` p broadcasts; absent: 1.
ValueId BinaryCrossEntropy(GraphBuilder& b, ValueId logits, ValueId target,
                           ValueId positive_weight = {},
                           LossReduction reduction = LossReduction::kMean);

// d^2 / 2 up to |d| = delta, then delta (|d| - delta / 2), d = x - y: c (d - c / 2) where c is d
// kept within [-delta, delta], which is the gradient too.
ValueId Huber(GraphBuilder& b, ValueId x, ValueId y, double delta = 1,
              LossReduction reduction = LossReduction::kMean);

}  // namespace kiln::training

#endif  // KILN_GRAPH_TRAINING_LOSSES_H_
