// SPDX-License-Identifier: Apache-2.0
// The tiny networks on the emulated GPU: what ONNX Runtime gave, no kernel refused, and nothing on
// the host but what has no kernels. One network of KILN_EVERY.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/compare.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/models/model_case.h"

namespace kiln {
namespace {

class EmulatedGpu : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedGpu, GivesTheExpectedOutputs) {
  const std::string folder = std::string(KILN_TEST_DATA_DIR "/models/tiny/") + GetParam();
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ReadModel(folder + "/model.onnx"));
  KILN_ASSERT_OK_AND_ASSIGN(auto runtime,
                            Runtime::Create({.threads = 1, .device = "cuda-emulated"}));
  const TempDir cache;
  CompileOptions options;
  options.threads = 1;
  options.cache.directory = cache.path();
  options.runtime = runtime;
  options.target = Target::Parse("cuda-sm80");
  options.kernels = std::make_shared<KernelService>(options);
  int library_calls = 0;
  options.on_plan = [&](const PlanInfo& plan) {
    library_calls += static_cast<int>(plan.library_calls.size());
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs,
                            model.Run(Named(graph, ReadTensors(folder, "input"))));
  const std::vector<Tensor> expected = ReadTensors(folder, "expected");
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Comparison c = Compare(outputs[k], expected[k], 0, 1e-3 * StandardDeviation(expected[k]));
    EXPECT_TRUE(c.ok) << "output " << k << ": " << c.what;
  }
  const KernelCounts counts = options.kernels->counts();
  EXPECT_GT(counts.built, 0);
  EXPECT_EQ(counts.failed, 0);
  EXPECT_EQ(counts.unvalidated, 0);
  EXPECT_EQ(library_calls, 0);
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedGpu,
                         testing::ValuesIn(TinyNetworks(FromEnvironment("KILN_EVERY", 3))),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kiln
