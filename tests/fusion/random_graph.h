// SPDX-License-Identifier: Apache-2.0
// Random graphs of nodes as networks have them: element-wise, reductions, normalisations, moves and
// products, over values of one to four axes. What they compute is continuous and stays small, so
// that optimisation levels can be compared.
#ifndef KILN_TESTS_FUSION_RANDOM_GRAPH_H_
#define KILN_TESTS_FUSION_RANDOM_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct RandomNet {
  Graph graph;
  std::vector<Tensor> inputs;  // in [-1, 1)
  bool library = false;        // has library operators
};

// Equal seeds give equal nets; `most_elements` bounds the inputs.
absl::StatusOr<RandomNet> MakeRandomNet(uint64_t seed, int64_t most_elements);

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_RANDOM_GRAPH_H_
