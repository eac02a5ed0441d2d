// SPDX-License-Identifier: Apache-2.0
// Activations written in pieces: gelu, swish and hard swish as exporters spell them.
//
//   x * 0.5 * (1 + erf(x / sqrt(2)))    x * sigmoid(x)    x * clip(x + 3, 0, 6) / 6
//
// Products are compared as sets of factors, so the order and grouping of multiplications does not
// matter.
#ifndef KILN_FUSION_ACTIVATION_PATTERN_H_
#define KILN_FUSION_ACTIVATION_PATTERN_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln {

struct ActivationPattern {
  std::string name;  // a post-op: "gelu_erf", "gelu_tanh", "swish", "hard_swish"
  std::vector<double> numbers;
  std::vector<NodeId> nodes;  // ascending; the last one has the result
};

// The pattern that is all there is between `x` (f32) and its result: nobody else reads x or what
// lies between. `users` is graph.Users().
std::optional<ActivationPattern> FindActivation(const Graph& graph,
                                                const std::vector<std::vector<NodeId>>& users,
                                                ValueId x);

}  // namespace kiln

#endif  // KILN_FUSION_ACTIVATION_PATTERN_H_
