// SPDX-License-Identifier: Apache-2.0
// Gradients of records that do not follow from their bodies, or follow better from something else:
// the `gradient.rule` of their records. What they take and give is as GradientSlot says.
#ifndef KILN_GRAPH_GRADIENT_RULES_H_
#define KILN_GRAPH_GRADIENT_RULES_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln::gradient {

using Rule = absl::StatusOr<std::vector<ValueId>>(GraphBuilder& b, const Node& node,
                                                  std::span<const ValueId> cotangents);

Rule Nothing;                                           // stop_gradient
Rule Extremum, Clip, Pow, Relu, LeakyRelu, Prelu, Elu;  // choice.cc
Rule Softmax, LogSoftmax, L2, Div, InstanceNorm;        // normalize.cc
Rule Matmul;                                            // matmul.cc
Rule Conv, ConvTranspose, ConvBackwardWeights;          // conv.cc
Rule MaxPool, AveragePool;                              // pool.cc
Rule MaxPoolBackward, AveragePoolBackward;              // pool.cc
Rule TopK, Cumulative, ScatterElements, ScatterNd;      // order.cc
Rule ScatterSum;                                        // order.cc
Rule Split;                                             // movement.cc
Rule Compress, Unique, Unchanged;                       // dynamic.cc
Rule Custom;                                            // gradients.cc
Rule If, Loop;                                          // control.cc

// What the gradients of pools mean in nodes of kernels: the `by_kernels` of their records.
absl::StatusOr<std::vector<ValueId>> MaxPoolBackwardByKernels(GraphBuilder& b, const Node& node);
absl::StatusOr<std::vector<ValueId>> AveragePoolBackwardByKernels(GraphBuilder& b,
                                                                  const Node& node);

// Reasons why a record has none.
inline constexpr const char* kGivesBooleans = "gives booleans";
inline constexpr const char* kGivesIntegers = "gives integers";

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_RULES_H_
