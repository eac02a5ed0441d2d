// SPDX-License-Identifier: Apache-2.0
// The generated networks of tests/data/models at every level, compiled, on the VM and on the
// interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "tests/base/status_matchers.h"
#include "tests/models/model_case.h"

namespace kiln {
namespace {

// Networks that need operators Kiln does not have yet, by the operator the error must name. One
// that runs after all fails here.
const std::map<std::string, std::string>& Unsupported() {
  static const auto* const table = new std::map<std::string, std::string>{};
  return *table;
}

std::vector<std::string> Networks() {
  std::vector<std::string> names;
  const std::string root = KILN_TEST_DATA_DIR "/models";
  for (const auto& variant : std::filesystem::directory_iterator(root)) {
    if (!variant.is_directory()) continue;
    for (const auto& net : std::filesystem::directory_iterator(variant)) {
      names.push_back(
          absl::StrCat(variant.path().filename().string(), "/", net.path().filename().string()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class NetworkTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(KILN_TEST_DATA_DIR "/models/", GetParam());
    auto graph = ReadModel(absl::StrCat(folder_, "/model.onnx"));
    if (const auto known = Unsupported().find(GetParam()); known != Unsupported().end()) {
      ASSERT_EQ(graph.status().code(), absl::StatusCode::kUnimplemented)
          << "it runs: take it off the list";
      EXPECT_NE(std::string(graph.status().message()).find(known->second), std::string::npos)
          << graph.status();
      GTEST_SKIP() << "not supported yet: " << known->second;
    }
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    inputs_ = ReadTensors(folder_, "input");
    expected_ = ReadTensors(folder_, "expected");
    ASSERT_EQ(inputs_.size(), graph_.inputs().size());
    ASSERT_EQ(expected_.size(), graph_.outputs().size());
  }

  // A bound of 1e-3 standard deviations leaves room for any order of summation and catches a wrong
  // kernel.
  void Check(const std::vector<Tensor>& outputs, const std::string& how) {
    ASSERT_EQ(outputs.size(), expected_.size()) << how;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Comparison c =
          Compare(outputs[k], expected_[k], 0, 1e-3 * StandardDeviation(expected_[k]));
      EXPECT_TRUE(c.ok) << how << " output " << k << ": " << c.what;
    }
  }

  std::string folder_;
  Graph graph_;
  std::vector<Tensor> inputs_, expected_;
};

TEST_P(NetworkTest, GivesTheExpectedOutputsAtEveryLevelAndMode) {
  for (const CompileMode mode : {CompileMode::kBlock, CompileMode::kNever}) {
    for (const int level : {0, 3}) {
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph_, SharedOptions(level, mode)));
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs,
                                model.Run(Named(graph_, inputs_)));
      Check(outputs, absl::StrCat("-O", level, mode == CompileMode::kBlock ? " compiled" : " VM"));
    }
  }
}

TEST_P(NetworkTest, GivesTheExpectedOutputsOnTheInterpreter) {
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs, Interpret(graph_, inputs_));
  Check(outputs, "interpreter");
}

INSTANTIATE_TEST_SUITE_P(All, NetworkTest, testing::ValuesIn(Networks()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
});

// Kernels of the graph as groups of the whole program, by text.
std::vector<std::string> KernelTexts(const std::string& model) {
  CompileOptions options;
  std::vector<std::string> texts;
  options.dump = [&](const std::string& stage, const std::string&, const std::string& text) {
    if (stage == "kernel") texts.push_back(text);
  };
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  const absl::StatusOr<Model> compiled = Compile(model, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  std::sort(texts.begin(), texts.end());
  return texts;
}

TEST(NetworksTest, BertGivesTheSameKernelsPlainAndDecomposed) {
  const std::string root = KILN_TEST_DATA_DIR "/models/";
  EXPECT_EQ(KernelTexts(root + "tiny/bert_base/model.onnx"),
            KernelTexts(root + "tiny_decomposed/bert_base/model.onnx"));
}

TEST(NetworksTest, DynamicBatchRunsAnyBatchWithoutBuildingAgain) {
  const std::string folder = KILN_TEST_DATA_DIR "/models/tiny_dynamic/bert_base";
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ReadModel(folder + "/model.onnx"));
  CompileOptions options = SharedOptions(3, CompileMode::kBlock);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  const int before = options.kernels->counts().kernels;
  const std::vector<Tensor> inputs = ReadTensors(folder, "input");
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> one, model.Run(Named(graph, inputs)));
  for (const int64_t batch : {3, 5}) {
    std::vector<Tensor> repeated;
    for (const Tensor& input : inputs) {
      std::vector<int64_t> shape = input.shape();
      shape[0] = batch;
      std::vector<int64_t> strides = input.strides();
      strides[0] = 0;
      repeated.push_back(Tensor::View(input.data(), input.dtype(), shape, strides, input.owner()));
    }
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> many, model.Run(Named(graph, repeated)));
    for (size_t k = 0; k < many.size(); ++k) {
      for (int64_t row = 0; row < batch; ++row) {
        char* const at = static_cast<char*>(many[k].data()) + row * one[k].size_bytes();
        const Comparison c =
            Compare(Tensor::View(at, one[k].dtype(), one[k].shape()), one[k], 1e-4, 1e-5);
        EXPECT_TRUE(c.ok) << "batch " << batch << " row " << row << ": " << c.what;
      }
    }
  }
  EXPECT_EQ(options.kernels->counts().kernels, before);
}

}  // namespace
}  // namespace kiln
