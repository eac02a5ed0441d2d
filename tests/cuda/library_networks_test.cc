// SPDX-License-Identifier: Apache-2.0
// The tiny networks on the emulated GPU with fakes of its libraries (fake/): what ONNX Runtime
// gave, and every product and convolution that is a call is computed by a library. One network of
// KILN_EVERY; kernels run on the VM.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "base/compare.h"
#include "compiler/compile.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cuda/fake/fakes.h"
#include "tests/models/model_case.h"

namespace kiln {
namespace {

class LibraryNetworks : public testing::TestWithParam<std::string> {
 protected:
  LibraryNetworks() {
    setenv("KILN_CUBLASLT", fakes_.cublaslt_path.c_str(), 1);
    setenv("KILN_CUDNN", fakes_.cudnn_path.c_str(), 1);
  }
  ~LibraryNetworks() override {
    unsetenv("KILN_CUBLASLT");
    unsetenv("KILN_CUDNN");
  }
  FakeLibraries fakes_;
};

TEST_P(LibraryNetworks, GiveTheExpectedOutputs) {
  const std::string folder = std::string(KILN_TEST_DATA_DIR "/models/tiny/") + GetParam();
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ReadModel(folder + "/model.onnx"));
  CompileOptions options;
  KILN_ASSERT_OK_AND_ASSIGN(options.runtime,
                            Runtime::Create({.threads = 1, .device = "cuda-emulated"}));
  options.threads = 1;
  options.cache.enabled = false;
  options.compile_mode = CompileMode::kNever;
  options.target = Target::Parse("cuda-sm80");
  int calls = 0;
  options.on_plan = [&](const PlanInfo& plan) {
    for (const PlannedCall& call : plan.library_calls) {
      EXPECT_THAT(call.considered.back().implementation, testing::AnyOf("cuBLASLt", "cuDNN"))
          << call.op << " " << call.nodes << ": " << call.considered[0].refusal;
      ++calls;
    }
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs,
                            model.Run(Named(graph, ReadTensors(folder, "input"))));
  EXPECT_GT(calls, 0);
  const std::vector<Tensor> expected = ReadTensors(folder, "expected");
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Comparison c = Compare(outputs[k], expected[k], 0, 1e-3 * StandardDeviation(expected[k]));
    EXPECT_TRUE(c.ok) << "output " << k << ": " << c.what;
  }
}

// What is cached of a model is of the libraries that there were.
using CachedNetwork = LibraryNetworks;
TEST_P(CachedNetwork, HasTheCallsOfTheLibrariesThatAreThere) {
  const TempDir cache;
  const auto calls = [&](DeviceLibrary library) {
    CompileOptions options;
    options.threads = 1;
    options.cache.directory = cache.path();
    options.compile_mode = CompileMode::kNever;
    options.target = Target::Parse("cuda-sm80");
    options.device_library = library;
    int count = 0;
    options.on_plan = [&](const PlanInfo& plan) {
      count += static_cast<int>(plan.library_calls.size());
    };
    auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
    EXPECT_THAT(runtime, IsOk());
    options.runtime = *std::move(runtime);
    const std::string folder = std::string(KILN_TEST_DATA_DIR "/models/tiny/") + GetParam();
    auto model = Compile(folder + "/model.onnx", options);
    EXPECT_THAT(model, IsOk());
    auto ran = model->Run(Named(*ReadModel(folder + "/model.onnx"), ReadTensors(folder, "input")));
    EXPECT_THAT(ran, IsOk());
    return count;
  };
  const int all = calls(DeviceLibrary::kFound);
  EXPECT_GT(all, 0);
  EXPECT_EQ(calls(DeviceLibrary::kNever), 0);
  EXPECT_EQ(calls(DeviceLibrary::kFound), all);
  EXPECT_EQ(calls(DeviceLibrary::kAlways), all);
}

INSTANTIATE_TEST_SUITE_P(One, CachedNetwork, testing::Values("mlp_mixer_small"));
INSTANTIATE_TEST_SUITE_P(All, LibraryNetworks,
                         testing::ValuesIn(TinyNetworks(FromEnvironment("KILN_EVERY", 1))),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kiln
