// SPDX-License-Identifier: Apache-2.0
// Whole networks: the tiny ones of tests/data, and magika where it has been fetched.
#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/npy.h"
#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "tests/base/fetched_data.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

std::string DataPath(const std::string& name) {
  return absl::StrCat(KILN_TEST_DATA_DIR, "/", name);
}

// The path of the fetched magika model; empty if it is not there.
std::string MagikaPath() {
  const char* given = std::getenv("KILN_MAGIKA_MODEL");
  const std::string path =
      given != nullptr ? given : DataPath("../../.deps/models/magika/model.onnx");
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? path : "";
}

std::string OutputShapes(const Graph& graph) {
  std::string text;
  for (const Graph::Output& output : graph.outputs()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", output.name,
                    ToString(graph.value(output.value).shape));
  }
  return text;
}

// Runs the graph in float64 on the inputs of a folder and compares with the outputs there. The
// bound is `atol`, or where that is 0 a thousandth of each output's standard deviation.
void ExpectOutputsOf(const Graph& graph, const std::string& folder, double atol) {
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(inputs.emplace_back(),
                              ReadNpy(absl::StrCat(folder, "/input_", k, ".npy")));
  }
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs, Interpret(graph, inputs));
  for (size_t k = 0; k < outputs.size(); ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor expected,
                              ReadNpy(absl::StrCat(folder, "/expected_", k, ".npy")));
    const double bound = atol > 0 ? atol : 1e-3 * StandardDeviation(expected);
    EXPECT_GT(bound, 0);
    const Comparison comparison = Compare(outputs[k], expected, 0, bound);
    EXPECT_TRUE(comparison.ok) << folder << " output " << k << ": " << comparison.what;
  }
}

struct Network {
  std::string name;
  std::string outputs;
};

class TinyNetworks : public testing::TestWithParam<Network> {};

TEST_P(TinyNetworks, AreImportedWhole) {
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import,
                            ImportOnnx(DataPath("models/" + GetParam().name + "/model.onnx")));
  KILN_EXPECT_OK(Verify(import.graph));
  EXPECT_EQ(OutputShapes(import.graph), GetParam().outputs);
  EXPECT_TRUE(import.unsupported.empty());
}

TEST_P(TinyNetworks, MeanWhatTheyMeant) {
  const std::string folder = DataPath("models/" + GetParam().name);
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnx(folder + "/model.onnx"));
  ExpectOutputsOf(import.graph, folder, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, TinyNetworks,
    testing::Values(
        Network{"tiny/bert_base", "last_hidden_state[1, 16, 32] pooler_output[1, 32]"},
        Network{"tiny/dcgan_generator", "image[1, 3, 32, 32]"},
        Network{"tiny/efficientnet_b0", "logits[1, 10]"},
        Network{"tiny/gpt2_small", "logits[1, 16, 100]"},
        Network{"tiny/lstm_free", "logits[1, 10] h_n[1, 32] c_n[1, 32]"},
        Network{"tiny/mlp_mixer_small", "logits[1, 10]"},
        Network{"tiny/mobilenetv2", "logits[1, 10]"}, Network{"tiny/resnet50", "logits[1, 10]"},
        Network{"tiny/unet_small", "output[1, 3, 16, 16]"},
        Network{"tiny/vit_b16", "logits[1, 10]"},
        Network{"tiny_decomposed/bert_base", "last_hidden_state[1, 16, 32] pooler_output[1, 32]"},
        Network{"tiny_dynamic/bert_base", "last_hidden_state[N, 16, 32] pooler_output[N, 32]"},
        Network{"tiny_dynamic/mlp_mixer_small", "logits[N, 10]"}),
    [](const auto& info) {
      std::string name = info.param.name;
      for (char& c : name) c = c == '/' ? '_' : c;
      return name;
    });

TEST(Magika, IsImportedWithItsBatchFreeAndMeansWhatItMeant) {
  if (MagikaPath().empty()) KILN_LACKS_DATA("magika's weights", "scripts/fetch_model magika");
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnx(MagikaPath()));
  KILN_EXPECT_OK(Verify(import.graph));
  EXPECT_EQ(OutputShapes(import.graph), "target_label[bytes_dim0, 214]");
  EXPECT_EQ(import.opsets.at("ai.onnx.ml"), 2);
  ExpectOutputsOf(import.graph, DataPath("magika/case_1"),
                  1e-5);  // one file; the oracle takes seconds for each
}

}  // namespace
}  // namespace kiln
