// SPDX-License-Identifier: Apache-2.0
// Whole models on the emulated GPU: random graphs, from an empty cache and from what that left,
// give the bits that the VM gives on the CPU. KILN_RANDOM_GRAPHS graphs of each kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "exec/plan_info.h"
#include "graph/op.h"
#include "graph/text.h"
#include "ptx_emulator/control.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/random_moves.h"

namespace kiln {
namespace {

int NumGraphs() { return static_cast<int>(FromEnvironment("KILN_RANDOM_GRAPHS", 6)); }

std::shared_ptr<Runtime> EmulatedRuntime() {
  auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
  EXPECT_THAT(runtime, IsOk());
  return runtime.ok() ? *std::move(runtime) : nullptr;
}

absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const std::vector<Tensor>& tensors,
                                             const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t k = 0; k < tensors.size(); ++k)
    inputs.emplace_back(graph.value(graph.inputs()[k]).name, tensors[k]);
  return model.Run(inputs);
}

class EmulatedModels : public testing::TestWithParam<int> {
 protected:
  // The options of both sides, of the CPU's VM and of the device.
  CompileOptions Options() const {
    CompileOptions options;
    options.threads = 1;
    options.cache.directory = cache_.path();
    return options;
  }

  // With `on_device` the VM has the kernels of the device, as for products: on the CPU the library
  // computes those.
  void CheckColdAndWarm(const Graph& graph, const std::vector<Tensor>& inputs, int level,
                        bool on_device = false) {
    CompileOptions vm = Options();
    vm.graph_opt_level = level;
    if (on_device) {
      vm.runtime = runtime_;
      vm.target = Target::Parse("cuda-sm80");
    }
    vm.compile_mode = CompileMode::kNever;
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, RunGraph(graph, inputs, vm));
    for (const bool warm : {false, true}) {
      SCOPED_TRACE(absl::StrCat("-O", level, warm ? " warm" : " cold"));
      CompileOptions options = Options();
      options.graph_opt_level = level;
      options.runtime = runtime_;
      options.target = Target::Parse("cuda-sm80");
      options.kernels = std::make_shared<KernelService>(options);
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunGraph(graph, inputs, options));
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        const Comparison comparison = CompareBits(got[i], want[i]);
        EXPECT_TRUE(comparison.ok) << "output " << i << ": " << comparison.what;
      }
      const KernelCounts counts = options.kernels->counts();
      EXPECT_EQ(counts.failed, 0);
      EXPECT_EQ(counts.unvalidated, 0);
      if (warm) {
        EXPECT_EQ(counts.built, 0);
      }
    }
  }

  const TempDir cache_;
  const std::shared_ptr<Runtime> runtime_ = EmulatedRuntime();
};

// Kernels stand there for library operators, whose bits are others on the CPU.
bool CallsLibrary(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op->kind == OpKind::kLibrary; });
}

TEST_P(EmulatedModels, GiveTheBitsOfTheCpu) {
  for (int seed = GetParam(); seed < NumGraphs() && !HasFailure(); seed += 2) {
    KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net,
                              MakeRandomNet(static_cast<uint64_t>(seed) + 9000, 2'000));
    SCOPED_TRACE(absl::StrCat("net ", seed, "\n", Print(net.graph)));
    CheckColdAndWarm(net.graph, net.inputs, seed % 2 == 0 ? 3 : 0, CallsLibrary(net.graph));
  }
}

TEST_P(EmulatedModels, OfMovesGiveTheBitsOfTheCpu) {
  for (int seed = GetParam(); seed < NumGraphs() && !HasFailure(); seed += 2) {
    const absl::StatusOr<RandomMoves> moves = MakeRandomMoves(static_cast<uint64_t>(seed));
    if (!moves.ok()) continue;  // a step that some value does not allow
    SCOPED_TRACE(absl::StrCat("moves ", seed, "\n", Print(moves->graph)));
    CheckColdAndWarm(moves->graph, moves->inputs, 3);
  }
}

// Library operators as kernels, one that has none between kernels, and reductions of nothing of an
// input that is not empty.
TEST_P(EmulatedModels, OfLibraryOperatorsGiveTheBitsOfTheirKernels) {
  const Graph network = *ParseGraph(
      "graph g\ninput x : f32 [n, 4, 9, 8]\ninput w : f32 [6, 2, 3, 3]\ninput v : f32 [60, 7]\n"
      "c = conv(x, w) {group = 2, pads = [1, 1, 1, 1], strides = [2, 1]}\nr = relu(c)\n"
      "p = max_pool(r) {kernel = [2, 3], strides = [2, 3]}\nf = flatten(p) {axis = 1}\n"
      "q = slice(v) {starts = [0], ends = [24], axes = [0]}\nm = matmul(f, q)\n"
      "s = softmax(m) {axis = 1}\nt, i = top_k(s) {k = 3}\ny = neg(t)\noutput y\noutput i\n");
  const Graph nothing = *ParseGraph(
      "graph g\ninput x : f32 [4, m]\nt = slice(x) {starts = [2], ends = [9999], axes = [1]}\n"
      "s = reduce_sum(t) {axes = [1], keepdims = 0}\ny = mul(s, s)\nz = neg(s)\noutput y\n"
      "output z\n");
  const auto tensor = [](std::vector<int64_t> shape) {
    Tensor made = Tensor::Allocate(DType::kF32, std::move(shape));
    for (int64_t i = 0; i < made.num_elements(); ++i)
      static_cast<float*>(made.data())[i] = static_cast<float>(i * 37 % 89) * 0.03F - 1;
    return made;
  };
  const int64_t n = 1 + GetParam();
  CheckColdAndWarm(network, {tensor({n, 4, 9, 8}), tensor({6, 2, 3, 3}), tensor({60, 7})}, 3, true);
  CheckColdAndWarm(nothing, {tensor({4, 2 + 3 * GetParam()})}, 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EmulatedModels, testing::Range(0, 2));

// Until its kernels are built a model runs on the VM, which has copies of what is on the device.
TEST(EmulatedModel, RunsOnTheVmWithoutACompiler) {
  const Graph graph = *ParseGraph(
      "graph g\ninput x : f32 [n, 70]\ninput b : f32 [70]\ns = add(x, b)\nt = tanh(s)\n"
      "y = mul(t, x)\noutput y\noutput s\n");
  std::vector<Tensor> inputs = {Tensor::Allocate(DType::kF32, {5, 70}),
                                Tensor::Allocate(DType::kF32, {70})};
  for (Tensor& input : inputs)
    for (int64_t i = 0; i < input.num_elements(); ++i)
      static_cast<float*>(input.data())[i] = static_cast<float>(i % 89) * 0.03F - 1;
  CompileOptions options;
  options.cache.enabled = false;
  options.compile_mode = CompileMode::kNever;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, RunGraph(graph, inputs, options));
  options.runtime = EmulatedRuntime();
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunGraph(graph, inputs, options));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(CompareBits(got[i], want[i]).ok);
}

// What lies in the device's arena is in a plan's numbers, and within them.
TEST(EmulatedModel, ReportsTheDevicesArena) {
  const Graph graph = *ParseGraph(
      "graph g\ninput x : f32 [n, 70]\ns = softmax(x) {axis = 0}\n"
      "y = softmax(s) {axis = 1}\noutput y\n");
  std::string text;
  CompileOptions options;
  options.cache.enabled = false;
  options.compile_mode = CompileMode::kNever;
  options.runtime = EmulatedRuntime();
  options.on_plan = [&](const PlanInfo& plan) { text = plan.text; };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind(size_t{0}, Tensor::Allocate(DType::kF32, {5, 70})));
  KILN_ASSERT_OK(context.Run());
  const int64_t of_x = 5 * 70 * static_cast<int64_t>(sizeof(float));
  EXPECT_GE(context.report().arena, of_x);
  EXPECT_GE(context.report().lower_bound, of_x);
  EXPECT_GE(context.report().sum, context.report().arena);
  EXPECT_THAT(text, testing::HasSubstr(absl::StrCat("arena ", context.report().arena, " bytes")));
}

std::string LiveObjects() {
  kiln_ptx_objects live;
  kiln_ptx_live(&live);
  return absl::StrCat(live.contexts, " contexts, ", live.allocations, " allocations, ",
                      live.modules, " modules, ", live.streams, " streams");
}

constexpr char kNothing[] = "0 contexts, 0 allocations, 0 modules, 0 streams";

// From nothing to the outputs of a model whose kernels are cached.
absl::StatusOr<std::vector<Tensor>> OpenAndRun(const Graph& graph,
                                               const std::vector<Tensor>& inputs,
                                               CompileOptions options) {
  KILN_ASSIGN_OR_RETURN(options.runtime,
                        Runtime::Create({.threads = 1, .device = "cuda-emulated"}));
  return RunGraph(graph, inputs, options);
}

// Each call of the driver may fail: a status or the right values, nothing left on the device, and
// the next run is as ever, on the device and on the CPU.
TEST(EmulatedModel, AnErrorAtAnyCallIsAStatus) {
  KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net, MakeRandomNet(9003, 500));
  const TempDir cache;
  CompileOptions options;
  options.threads = 1;
  options.cache.directory = cache.path();
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want,
                            RunGraph(net.graph, net.inputs, options));
  const auto restart = [] {
    kiln_ptx_config config;
    kiln_ptx_default_config(&config);
    config.strict = 1;
    kiln_ptx_configure(&config);
  };
  KILN_ASSERT_OK(OpenAndRun(net.graph, net.inputs, options).status());  // builds
  restart();
  KILN_ASSERT_OK(OpenAndRun(net.graph, net.inputs, options).status());
  const uint64_t calls = kiln_ptx_calls(nullptr);
  ASSERT_EQ(LiveObjects(), kNothing);
  ASSERT_GT(calls, 30u);
  int failed = 0;
  options.compile_mode = CompileMode::kBackground;  // what cannot be loaded is not built meanwhile
  constexpr int kOutOfMemory = 2, kUnknown = 999, kIllegalAddress = 700;
  for (uint64_t k = 1; k <= std::min<uint64_t>(calls, 300); ++k) {
    for (const int result : {kOutOfMemory, kUnknown, kIllegalAddress}) {
      SCOPED_TRACE(absl::StrCat("call ", k, " of ", calls, " answers ", result));
      restart();
      kiln_ptx_fail_at(k, result, 1);
      const auto got = OpenAndRun(net.graph, net.inputs, options);
      failed += got.ok() ? 0 : 1;
      for (size_t i = 0; got.ok() && i < want.size(); ++i)
        ASSERT_TRUE(CompareBits((*got)[i], want[i]).ok);
      kiln_ptx_fail_at(0, 0, 0);
    }
    restart();
    {
      const auto again = OpenAndRun(net.graph, net.inputs, options);
      KILN_ASSERT_OK(again.status());
      for (size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(CompareBits((*again)[i], want[i]).ok);
    }
    // A thread may still be writing what the cache keeps of the model.
    for (int tries = 0; tries < 500 && LiveObjects() != kNothing; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(LiveObjects(), kNothing) << "after an error at call " << k;
  }
  EXPECT_GT(failed, 30);
}

TEST(Runtime, SaysWhyThereIsNoDevice) {
  EXPECT_THAT(Runtime::Create({.device = "cuda-emulatd"}).status().message(),
              testing::HasSubstr("is none of cuda, cuda:0"));
  EXPECT_THAT(Runtime::Create({.device = "cuda:-1"}).status().code(),
              absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Runtime::Create({.device = "cuda:77"}).status().code(),
              absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kiln
