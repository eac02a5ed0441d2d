// SPDX-License-Identifier: Apache-2.0
// Trainers of ONNX files, and what they export.
#include <fstream>
#include <string>
#include <vector>

#include "base/compare.h"
#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kiln/trainer.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"
#include "tests/trainer/plain_graph.h"
#include "tests/trainer/plain_network.h"
#include "tests/trainer/stateful_network.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using training::Numbers;

TEST(Trainer, ExportedModelsAnswerAsEvaluateDoes) {
  TempDir dir;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), VmOptions()));
  for (unsigned step = 0; step < 4; ++step) KILN_ASSERT_OK(trainer.Step(StepData(step)).status());
  KILN_ASSERT_OK(trainer.ExportOnnx(dir.File("trained.onnx")));
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(dir.File("trained.onnx"), OnVm()));
  const NamedTensors data = StepData(9);
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model.Run({data[0]}));
  KILN_ASSERT_OK_AND_ASSIGN(const Evaluation want, trainer.Evaluate(data));
  const Comparison same = Compare(got.at(0), want.outputs.at(0), 1e-4, 1e-5);
  EXPECT_TRUE(same.ok) << same.what;
  // What was exported can be trained further.
  KILN_ASSERT_OK_AND_ASSIGN(Trainer more, Trainer::Create(dir.File("trained.onnx"), VmOptions()));
  EXPECT_EQ(more.parameters().size(), trainer.parameters().size());
  EXPECT_EQ(more.statistics().size(), 2u);
}

// x [n, 4] -> Gemm -> BatchNormalization -> Dropout -> Gemm, in inference form; both statistics are
// one constant each of scale and bias, as exporters leave them that merge equal constants.
std::string OnnxFile() {
  const auto floats = [](const char* name, std::vector<int64_t> shape, unsigned seed) {
    const Tensor drawn = Drawn(shape, seed);
    const auto* const data = static_cast<const float*>(drawn.data());
    return OnnxTensor(name, kFloat, shape,
                      RawBytes(std::vector<float>(data, data + drawn.num_elements())));
  };
  const std::string graph =
      OnnxGraph({OnnxNode("MatMul", {"x", "w1"}, {"h"}),
                 OnnxNode("BatchNormalization", {"h", "ones", "zeros", "zeros", "ones"}, {"n"}),
                 OnnxNode("Dropout", {"n", "ratio"}, {"d"}), OnnxNode("MatMul", {"d", "w2"}, {"z"}),
                 OnnxNode("Softmax", {"z"}, {"p"})},
                {OnnxValue("x", kFloat, {"n", 4})}, {OnnxValue("p", kFloat, {})},
                {floats("w1", {4, 5}, 1), OnnxFloats("ones", {1, 1, 1, 1, 1}),
                 OnnxFloats("zeros", {0, 0, 0, 0, 0}), floats("w2", {5, 3}, 2),
                 OnnxTensor("ratio", kFloat, {}, RawBytes(std::vector<float>{0.5}))});
  return OnnxModel(17, graph);
}

TEST(Trainer, TrainsOnnxFilesInInferenceForm) {
  TempDir dir;
  const std::string path = dir.File("net.onnx");
  std::ofstream(path, std::ios::binary) << OnnxFile();
  TrainerOptions options = VmOptions();
  options.schedule.lr = 0.02;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(path, options));
  EXPECT_EQ(trainer.parameters().size(), 4u);
  ASSERT_EQ(trainer.statistics().size(), 2u);
  EXPECT_EQ(trainer.inputs().back().name, "labels");
  // Classes that a plane tells apart.
  const auto batch = [](unsigned seed) {
    NamedTensors data = {{"x", Drawn({32, 4}, seed)},
                         {"labels", Tensor::Allocate(DType::kU8, {32})}};
    for (int64_t i = 0; i < 32; ++i)
      WriteInt(data[1].second, i, ReadFloat(data[0].second, 4 * i) > 0 ? 2 : 0);
    return data;
  };
  KILN_ASSERT_OK_AND_ASSIGN(const Evaluation before, trainer.Evaluate(batch(1)));
  std::vector<double> losses;
  for (unsigned step = 0; step < 60; ++step) {
    KILN_ASSERT_OK_AND_ASSIGN(losses.emplace_back(), trainer.Step(batch(step + 10)));
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Evaluation after, trainer.Evaluate(batch(1)));
  EXPECT_LT(after.loss, 0.5 * before.loss);
  // The output stays what it is in the file: probabilities.
  double sum = 0;
  for (int64_t c = 0; c < 3; ++c) sum += ReadFloat(after.outputs.at(0), c);
  EXPECT_NEAR(sum, 1, 1e-5);
}

// Masks and the like, which exporters write as Constant nodes, stay what they are unless a pattern
// names them, and after a training that goes on from an exported model.
TEST(Trainer, LeavesWhatConstantNodesSay) {
  const std::string graph = OnnxGraph(
      {OnnxNode("Constant", {}, {"mask"}, {TensorAttribute("value", OnnxFloats("", {0, -9, 0}))}),
       OnnxNode("MatMul", {"x", "w"}, {"h"}), OnnxNode("Add", {"h", "mask"}, {"y"})},
      {OnnxValue("x", kFloat, {"n", 2})}, {OnnxValue("y", kFloat, {"n", 3})},
      {OnnxTensor("w", kFloat, {2, 3}, RawBytes(std::vector<float>{1, 2, 3, 4, 5, 6}))});
  TempDir dir;
  const std::string path = dir.File("net.onnx"), trained = dir.File("trained.onnx");
  std::ofstream(path, std::ios::binary) << OnnxModel(17, graph);
  TrainerOptions options = VmOptions();
  options.loss = training::MeanSquaredErrorLoss();
  const NamedTensors data = {{"x", Drawn({8, 2}, 1)}, {"labels", Drawn({8, 3}, 2)}};
  for (const std::string& file : {path, trained}) {
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(file, options));
    ASSERT_EQ(trainer.parameters().size(), 1u);
    EXPECT_EQ(trainer.parameters()[0].name, "w");
    KILN_ASSERT_OK(trainer.Step(data).status());
    KILN_ASSERT_OK(trainer.ExportOnnx(trained));
  }
  options.parameters = {"mask"};
  KILN_ASSERT_OK_AND_ASSIGN(const Trainer named, Trainer::Create(path, options));
  ASSERT_EQ(named.parameters().size(), 1u);
  EXPECT_EQ(named.parameters()[0].name, "mask");
}

// A batch norm of x [n, 3] behind the nodes `before`.
std::string BatchNormFile(int opset, const std::vector<std::string>& before,
                          const std::vector<std::string>& statistics,
                          const std::vector<std::string>& outputs,
                          const std::vector<std::string>& attributes = {},
                          const std::vector<std::string>& outputs_of_model = {"n"}) {
  std::vector<std::string> inputs = {"x", "scale", "bias"}, nodes = before, values;
  inputs.insert(inputs.end(), statistics.begin(), statistics.end());
  nodes.push_back(OnnxNode("BatchNormalization", inputs, outputs, attributes));
  for (const std::string& name : outputs_of_model) values.push_back(OnnxValue(name, kFloat, {}));
  return OnnxModel(opset,
                   OnnxGraph(nodes, {OnnxValue("x", kFloat, {"n", 3})}, values,
                             {OnnxFloats("scale", {1, 1, 1}), OnnxFloats("bias", {0, 0, 0}),
                              OnnxFloats("mean", {0, 0, 0}), OnnxFloats("variance", {1, 1, 1})}));
}

absl::StatusOr<Trainer> TrainerAt(const std::string& path) {
  TrainerOptions options = VmOptions();
  options.loss = training::MeanSquaredErrorLoss();
  options.schedule.lr = 0.01;
  options.optimizer = training::Sgd();
  return Trainer::Create(path, options);
}

absl::StatusOr<Trainer> TrainerOf(const std::string& file) {
  TempDir dir;
  const std::string path = dir.File("net.onnx");
  std::ofstream(path, std::ios::binary) << file;
  return TrainerAt(path);
}

// Torch names the running statistics of a batch norm in training although nothing reads them, and
// where it merges equal constants, identities stand for the statistics of one in inference.
TEST(Trainer, TrainsBatchNormsOfTorch) {
  const std::vector<std::string> merged = {OnnxNode("Identity", {"bias"}, {"running_mean"}),
                                           OnnxNode("Identity", {"scale"}, {"running_var"})};
  const std::vector<std::string> none, named = {"n", "next_mean", "next_variance"};
  const std::vector<std::string> own = {"mean", "variance"},
                                 shared = {"running_mean", "running_var"};
  const NamedTensors data = {{"x", Drawn({16, 3}, 1)}, {"labels", Drawn({16, 3}, 2)}};
  for (const std::string& file :
       {BatchNormFile(17, none, own, {"n"}),
        BatchNormFile(17, none, own, named, {IntAttribute("training_mode", 1)}),
        BatchNormFile(9, none, own, named), BatchNormFile(17, merged, shared, {"n"})}) {
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, TrainerOf(file));
    ASSERT_EQ(trainer.parameters().size(), 2u);
    ASSERT_EQ(trainer.statistics().size(), 2u);
    KILN_ASSERT_OK(trainer.Step(data).status());
    Numbers mean(3), square(3);
    for (size_t i = 0; i < 48; ++i) {
      const double x = ReadFloat(data[0].second, static_cast<int64_t>(i));
      mean[i % 3] += x / 16;
      square[i % 3] += x * x / 16;
    }
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor running,
                              trainer.Parameter(trainer.statistics()[0].name));
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor spread, trainer.Parameter(trainer.statistics()[1].name));
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor scale, trainer.Parameter("scale"));
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor bias, trainer.Parameter("bias"));
    TempDir dir;
    KILN_ASSERT_OK(trainer.ExportOnnx(dir.File("trained.onnx")));
    KILN_ASSERT_OK_AND_ASSIGN(Trainer exported, TrainerAt(dir.File("trained.onnx")));
    const Tensor row =
        Tensor::View(data[0].second.data(), DType::kF32, {1, 3}, {}, data[0].second.owner());
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> one, trainer.Run({{"x", row}}));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> again, exported.Run({{"x", row}}));
    for (int64_t c = 0; c < 3; ++c) {
      const auto k = static_cast<size_t>(c);
      const double variance = square[k] - mean[k] * mean[k];
      EXPECT_NEAR(ReadFloat(running, c), 0.1 * mean[k], 1e-6);
      EXPECT_NEAR(ReadFloat(spread, c), 0.9 + 0.1 * variance, 1e-6);
      double scale_gradient = 0, bias_gradient = 0;
      for (int64_t i = c; i < 48; i += 3) {
        const double y = (ReadFloat(data[0].second, i) - mean[k]) / std::sqrt(variance + 1e-5);
        bias_gradient += 2 * (y - ReadFloat(data[1].second, i)) / 48;
        scale_gradient += 2 * (y - ReadFloat(data[1].second, i)) * y / 48;
      }
      EXPECT_NEAR(ReadFloat(scale, c), 1 - 0.01 * scale_gradient, 1e-5);
      EXPECT_NEAR(ReadFloat(bias, c), -0.01 * bias_gradient, 1e-5);
      const double normal =
          (ReadFloat(row, c) - ReadFloat(running, c)) / std::sqrt(ReadFloat(spread, c) + 1e-5);
      EXPECT_NEAR(ReadFloat(one.at(0), c), ReadFloat(scale, c) * normal + ReadFloat(bias, c), 1e-5);
      EXPECT_NEAR(ReadFloat(again.at(0), c), ReadFloat(one.at(0), c), 1e-6);
    }
  }
  // Statistics that are read are made of the batch; others than constants and those are refused.
  KILN_ASSERT_OK_AND_ASSIGN(
      const Trainer by_batch,
      TrainerOf(BatchNormFile(17, none, own, named, {IntAttribute("training_mode", 1)}, named)));
  EXPECT_EQ(by_batch.statistics().size(), 0u);
  const std::vector<std::string> computed = {OnnxNode("Abs", {"variance"}, {"running_var"})};
  const absl::Status refused =
      TrainerOf(BatchNormFile(17, computed, {"mean", "running_var"}, {"n"})).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("its mean \"mean\" is no constant"));
}

}  // namespace
}  // namespace kiln
