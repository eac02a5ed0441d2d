// SPDX-License-Identifier: Apache-2.0
// Gradients of random graphs against differences, along one random direction for each input. 200
// graphs, or as many as KILN_RANDOM_GRAPHS says, from the seed KILN_SEED on.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/reference/gradient_check.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/fusion/random_graph.h"

namespace kiln {
namespace {

TEST(RandomGraphs, GradientsAgreeWithDifferences) {
  const auto count = FromEnvironment("KILN_RANDOM_GRAPHS", 200);
  const auto seed = static_cast<uint64_t>(FromEnvironment("KILN_SEED", 1));
  for (uint64_t k = 0; k < static_cast<uint64_t>(count); ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net, MakeRandomNet(seed + k, 60));
    std::vector<Tensor> inputs = net.inputs;
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, InF64(net.graph, inputs));
    const GradientCheckOptions options{
        .steps = {1e-4, 1e-5, 1e-6}, .most_elements = 0, .directions = 1, .seed = seed + k};
    KILN_EXPECT_OK(CheckGradients(graph, inputs, options)) << "KILN_SEED=" << seed + k << "\n"
                                                           << Print(graph);
  }
}

}  // namespace
}  // namespace kiln
