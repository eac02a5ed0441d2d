// SPDX-License-Identifier: Apache-2.0
// Whole networks, as ONNX files have them: the gradient of a random sum of their outputs by all
// inputs and parameters together, against differences along a random direction.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "graph/onnx/import.h"
#include "graph/reference/gradient_check.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

class NetworkTest : public testing::TestWithParam<std::string> {};

TEST_P(NetworkTest, GradientsAgreeWithDifferences) {
  const std::string folder = absl::StrCat(KILN_TEST_DATA_DIR, "/models/tiny/", GetParam());
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport model,
                            ImportOnnx(absl::StrCat(folder, "/model.onnx")));
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < model.graph.inputs().size(); ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(inputs.emplace_back(),
                              ReadNpy(absl::StrCat(folder, "/input_", k, ".npy")));
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, InF64(model.graph, inputs, /*parameters=*/true));
  KILN_EXPECT_OK(CheckGradients(
      graph, inputs,
      {.steps = {1e-5, 1e-6, 1e-7}, .most_elements = 0, .directions = 1, .together = true}));
}

INSTANTIATE_TEST_SUITE_P(Tiny, NetworkTest,
                         testing::Values("bert_base", "dcgan_generator", "efficientnet_b0",
                                         "gpt2_small", "lstm_free", "mlp_mixer_small",
                                         "mobilenetv2", "resnet50", "unet_small", "vit_b16"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace kiln
