// SPDX-License-Identifier: Apache-2.0
// Whole networks: the tiny ones of tests/data, and magika where it has been fetched.
#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kiln/graph/onnx/import.h"
#include "kiln/graph/op.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

std::string DataPath(const std::string& name) { return absl::StrCat(KILN_TEST_DATA_DIR, "/", name); }

// The path of the fetched magika model; empty if it is not there.
std::string MagikaPath() {
  const char* given = std::getenv("KILN_MAGIKA_MODEL");
  const std::string path = given != nullptr ? given : DataPath("../../.deps/models/magika/model.onnx");
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? path : "";
}

std::string OutputShapes(const Graph& graph) {
  std::string text;
  for (const Graph::Output& output : graph.outputs()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", output.name, ToString(graph.value(output.value).shape));
  }
  return text;
}

struct Network {
  std::string name;
  std::string outputs;
};

class TinyNetworks : public testing::TestWithParam<Network> {};

TEST_P(TinyNetworks, AreImportedWhole) {
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnx(DataPath("models/" + GetParam().name + "/model.onnx")));
  KILN_EXPECT_OK(Verify(import.graph));
  EXPECT_EQ(OutputShapes(import.graph), GetParam().outputs);
  EXPECT_TRUE(import.unsupported.empty());
}

INSTANTIATE_TEST_SUITE_P(All, TinyNetworks,
                         testing::Values(Network{"tiny/bert_base", "last_hidden_state[1, 16, 32] pooler_output[1, 32]"},
                                         Network{"tiny/dcgan_generator", "image[1, 3, 32, 32]"},
                                         Network{"tiny/efficientnet_b0", "logits[1, 10]"},
                                         Network{"tiny/gpt2_small", "logits[1, 16, 100]"},
                                         Network{"tiny/lstm_free", "logits[1, 10] h_n[1, 32] c_n[1, 32]"},
                                         Network{"tiny/mlp_mixer_small", "logits[1, 10]"},
                                         Network{"tiny/mobilenetv2", "logits[1, 10]"},
                                         Network{"tiny/resnet50", "logits[1, 10]"},
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

TEST(Magika, IsImportedWithItsBatchFree) {
  if (MagikaPath().empty()) GTEST_SKIP() << "magika is not here: scripts/fetch_model magika, or set KILN_MAGIKA_MODEL";
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportOnnx(MagikaPath()));
  KILN_EXPECT_OK(Verify(import.graph));
  EXPECT_EQ(OutputShapes(import.graph), "target_label[bytes_dim0, 214]");
  EXPECT_EQ(import.opsets.at("ai.onnx.ml"), 2);
}

}  // namespace
}  // namespace kiln
