// SPDX-License-Identifier: Apache-2.0
// Gradients of random graphs against differences, along one random direction for each input. 200
// graphs, or as many as KILN_RANDOM_GRAPHS says, from the seed KILN_SEED on.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/fusion/random_graph.h"
#include "tests/gradient/gradient_check.h"

namespace kiln {
namespace {

Tensor AsF64(const Tensor& x) {
  Tensor wide = Tensor::Allocate(DType::kF64, x.shape());
  const Tensor dense = Dense(x);
  for (int64_t i = 0; i < x.num_elements(); ++i) WriteFloat(wide, i, ReadFloat(dense, i));
  return wide;
}

TEST(RandomGraphs, GradientsAgreeWithDifferences) {
  const auto count = FromEnvironment("KILN_RANDOM_GRAPHS", 200);
  const auto seed = static_cast<uint64_t>(FromEnvironment("KILN_SEED", 1));
  for (uint64_t k = 0; k < static_cast<uint64_t>(count); ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net, MakeRandomNet(seed + k, 60));
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, InF64(net.graph));
    std::vector<Tensor> inputs;
    for (const Tensor& input : net.inputs) inputs.push_back(AsF64(input));
    GradientCheckOptions options{.most_elements = 0, .directions = 1, .seed = seed + k};
    absl::Status status;
    // A step over a kink is told by a shorter one; a wrong gradient is wrong for all.
    for (const double step : {1e-4, 1e-5, 1e-6}) {
      options.step = step;
      status = CheckGradients(graph, inputs, options);
      if (status.ok()) break;
    }
    KILN_EXPECT_OK(status) << "KILN_SEED=" << seed + k << "\n" << Print(graph);
  }
}

}  // namespace
}  // namespace kiln
