// SPDX-License-Identifier: Apache-2.0
// Twelve networks in training form, in small, against torch: gradients in f64 and f32 and the first
// losses of training. Torch's figures are in networks/NAME.json (bench/training/references.py has
// them made, and compares every element and 300 losses where torch is installed).
#include "tests/training/network.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"

namespace kiln::training {
namespace {

constexpr double kUlp = 0x1p-23;  // of f32
// What an error of f32 counts as at least: torch's may be small by luck.
constexpr double kLeastError = 4 * kUlp;

class TrainedNetwork : public testing::TestWithParam<std::string> {
 protected:
  static absl::StatusOr<Network> Read(DType type) {
    return ReadNetwork(KILN_TRAINING_NETWORKS, GetParam(), type);
  }
  static std::vector<Tensor> Inputs(const Network& network) {
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < network.ports.size(); ++k) inputs.push_back(SeededValue(network, k));
    return inputs;
  }
};

// The norm of a gradient and its sum over a direction that depends on its name.
struct Figures {
  double norm = 0, projection = 0;
};

Figures FiguresOf(const Tensor& gradient, const std::string& name) {
  const std::vector<double> units =
      SeededUnits(absl::StrCat("direction of ", name), gradient.num_elements());
  Figures figures;
  for (int64_t i = 0; i < gradient.num_elements(); ++i) {
    const double element = ReadFloat(gradient, i);
    figures.norm += element * element;
    figures.projection += element * (2 * units[static_cast<size_t>(i)] - 1);
  }
  figures.norm = std::sqrt(figures.norm);
  return figures;
}

// `results`: the loss, then the gradients. A gradient may be off by `exact` times its norm, or by
// `rough` times torch's error of f32 where that is more; one that is zero but for rounding (of a
// key's bias) by that of the largest.
void ExpectTorchs(const Network& network, const Graph& graph, const std::vector<Tensor>& results,
                  double exact, double rough) {
  const nlohmann::json& want = network.file;
  double largest = 0;
  for (const auto& [name, figures] : want.at("gradients").items())
    largest = std::max(largest, figures.at(0).get<double>());
  const double loss = want.at("loss").at(0);
  EXPECT_NEAR(ReadFloat(results[0], 0), loss, (exact + rough * kUlp) * std::abs(loss));
  ASSERT_EQ(results.size(), want.at("gradients").size() + 1);
  for (size_t k = 1; k < results.size(); ++k) {
    const std::string name = graph.outputs()[k].name.substr(2);  // without "d_"
    SCOPED_TRACE(name);
    const nlohmann::json& figures = want.at("gradients").at(name);
    const double norm = figures.at(0), projection = figures.at(1), theirs = figures.at(2);
    const double error = std::max(theirs, kLeastError);
    const bool zero = norm < 1e-6 * largest;
    const double allowed =
        zero ? (exact + rough * kLeastError) * largest : (exact + rough * error) * norm;
    const auto elements = static_cast<double>(results[k].num_elements());
    const Figures got = FiguresOf(results[k], name);
    EXPECT_NEAR(got.norm, norm, allowed);
    EXPECT_NEAR(got.projection, projection, allowed * std::sqrt(elements / 3));
  }
}

TEST_P(TrainedNetwork, GradientsInF64AreTorchs) {
  KILN_ASSERT_OK_AND_ASSIGN(const Network network, Read(DType::kF64));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, GradientGraph(network));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, Interpret(graph, Inputs(network)));
  ExpectTorchs(network, graph, results, 1e-9, 0);
}

TEST_P(TrainedNetwork, GradientsInF32AreAsGoodAsTorchs) {
  KILN_ASSERT_OK_AND_ASSIGN(const Network network, Read(DType::kF32));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, GradientGraph(network));
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, OnVm()));
  NamedTensors named;
  const std::vector<Tensor> inputs = Inputs(network);
  for (size_t k = 0; k < inputs.size(); ++k) named.emplace_back(network.ports[k].name, inputs[k]);
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> results, model.Run(named));
  ExpectTorchs(network, graph, results, 0, 4);
}

TEST_P(TrainedNetwork, LearnsAsInTorch) {
  KILN_ASSERT_OK_AND_ASSIGN(const Network network, Read(DType::kF32));
  KILN_ASSERT_OK_AND_ASSIGN(const NetworkStep step, TrainingStep(network));
  CompileOptions options = OnVm();
  options.states = step.states;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(step.graph, options));
  Context context = model.NewContext();
  std::vector<Tensor> bound;
  KILN_ASSERT_OK(BeginTraining(network, step, context, bound));
  const nlohmann::json& curve = network.file.at("curve");
  const double error = curve.at("f32_error"), first = curve.at("losses").at(0);
  for (const nlohmann::json& loss : curve.at("losses")) {
    KILN_ASSERT_OK(context.Run());
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor got, context.Output("loss"));
    EXPECT_NEAR(ReadFloat(got, 0), loss.get<double>(), 2 * error + 8 * kUlp * std::abs(first));
  }
}

INSTANTIATE_TEST_SUITE_P(Small, TrainedNetwork,
                         testing::Values("alexnet", "bert", "gpt2", "lstm", "mlp", "mlp_mixer",
                                         "mobilenetv2", "resnet50", "transformer", "unet", "vae",
                                         "vit"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace kiln::training
