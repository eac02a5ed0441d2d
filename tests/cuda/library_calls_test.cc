// SPDX-License-Identifier: Apache-2.0
// Calls of a device's libraries, through compiler and executor: the emulated GPU with fakes of the
// libraries (fake/), against the reference interpreter. KILN_LIBRARY_CALLS random calls of each
// kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "compiler/package_writer.h"
#include "compiler/variants.h"
#include "fusion/library_call.h"
#include "fusion/pipeline.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "kiln/package.h"
#include "ptx_emulator/control.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cuda/fake/fakes.h"
#include "tests/fusion/random_library_call.h"

namespace kiln {
namespace {

using testing::HasSubstr;

std::shared_ptr<Runtime> EmulatedRuntime() {
  auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
  EXPECT_THAT(runtime, IsOk());
  return runtime.ok() ? *std::move(runtime) : nullptr;
}

// Kernels run on the VM: what is looked at are calls.
CompileOptions Options(std::shared_ptr<Runtime> runtime) {
  CompileOptions options;
  options.threads = 1;
  options.cache.enabled = false;
  options.compile_mode = CompileMode::kNever;
  options.target = Target::Parse("cuda-sm80");
  options.runtime = std::move(runtime);
  return options;
}

struct Ran {
  std::vector<Tensor> outputs;
  std::vector<PlannedCall> calls;
};

absl::StatusOr<Ran> RunIt(const Graph& graph, const std::vector<Tensor>& tensors,
                          CompileOptions options) {
  Ran ran;
  options.on_plan = [&](const PlanInfo& plan) { ran.calls = plan.library_calls; };
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t k = 0; k < tensors.size(); ++k)
    inputs.emplace_back(graph.value(graph.inputs()[k]).name, tensors[k]);
  KILN_ASSIGN_OR_RETURN(ran.outputs, model.Run(inputs));
  return ran;
}

std::string ComputedBy(const Ran& ran) {
  std::string names;
  for (const PlannedCall& call : ran.calls)
    absl::StrAppend(&names, names.empty() ? "" : ", ", call.considered.back().implementation);
  return names;
}

std::string PostOps(const Ran& ran) { return ran.calls.empty() ? "" : ran.calls[0].post_ops; }

void ExpectAsReference(const Graph& graph, const std::vector<Tensor>& inputs,
                       const std::vector<Tensor>& got) {
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(graph, inputs));
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const DType type = got[k].dtype();
    const double tolerance = type == DType::kBF16 ? 1e-2 : type == DType::kF16 ? 2e-3 : 2e-5;
    const Comparison comparison = Compare(got[k], want[k], tolerance, tolerance);
    EXPECT_TRUE(comparison.ok) << "output " << k << ": " << comparison.what;
  }
}

// What the checks have found since the last call. The VM has copies of outputs that nobody has
// written, so this is of runs without kernels.
std::string TakeFindings() {
  std::string text(kiln_ptx_findings(nullptr, 0), '\0');
  kiln_ptx_findings(text.data(), text.size() + 1);
  kiln_ptx_clear();
  return text;
}

class LibraryCalls : public testing::Test {
 protected:
  LibraryCalls() {
    fakes_.cublaslt.reset();
    fakes_.cudnn.reset();
    kiln_ptx_clear();
    setenv("KILN_CUBLASLT", fakes_.cublaslt_path.c_str(), 1);
    setenv("KILN_CUDNN", fakes_.cudnn_path.c_str(), 1);
  }
  ~LibraryCalls() override {
    unsetenv("KILN_CUBLASLT");
    unsetenv("KILN_CUDNN");
  }

  FakeLibraries fakes_;
};

class RandomCalls : public LibraryCalls, public testing::WithParamInterface<const char*> {};

// Some have a type, or pads, that are not the library's: those become kernels, none runs on copies.
TEST_P(RandomCalls, GiveWhatTheReferenceGives) {
  const auto runtime = EmulatedRuntime();
  const std::string library = GetParam() == std::string("matmul") ? "cuBLASLt" : "cuDNN";
  const uint64_t calls = FromEnvironment("KILN_LIBRARY_CALLS", 60);
  int computed = 0;
  for (uint64_t seed = 0; seed < calls; ++seed) {
    RandomCall call(seed);
    MakeRandomCall(GetParam(), call);
    if (absl::IsInvalidArgument(call.b.status())) continue;  // no output is left
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(call.b).Finish());
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", Print(graph)));
    KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, call.inputs, Options(runtime)));
    EXPECT_THAT(ComputedBy(ran), testing::AnyOf(library, ""));
    const std::string findings = TakeFindings();
    if (!ran.calls.empty()) {
      EXPECT_EQ(findings, "");
      ++computed;
    }
    ExpectAsReference(graph, call.inputs, ran.outputs);
    if (HasFailure()) return;
  }
  EXPECT_GE(computed, library == "cuDNN" ? calls / 60 : calls);
}

INSTANTIATE_TEST_SUITE_P(Ops, RandomCalls,
                         testing::Values("matmul", "conv", "conv_transpose",
                                         "conv_backward_weights", "max_pool", "average_pool",
                                         "average_pool_backward"),
                         [](const auto& info) { return std::string(info.param); });

// What may follow a product, and operands that are seen through transposes and slices.
struct Product {
  const char* what;
  const char* text;      // after the inputs
  const char* post_ops;  // that the call has, with strict math
  const char* fast;      // with fast math, which no option sets yet
};

constexpr Product kProducts[] = {
    {"bias", "m = matmul(a, b)\ny = add(m, v)\n", "add", "add"},
    {"addend", "m = matmul(a, b)\ny = add(m, r)\n", "add", "add"},
    {"bias_addend_relu", "m = matmul(a, b)\ns = add(v, m)\nt = add(s, r)\ny = relu(t)\n",
     "add, add", "add, add, relu"},
    {"addend_bias", "m = matmul(a, b)\ns = add(m, r)\ny = add(s, v)\n", "add, add", "add, add"},
    {"two_addends", "m = matmul(a, b)\ns = add(m, r)\ny = add(s, r)\n", "add", "add"},
    {"relu_then_bias", "m = matmul(a, b)\ns = relu(m)\ny = add(s, v)\n", "", "relu"},
    {"gelu", "m = matmul(a, b)\ns = add(m, v)\ny = gelu(s) {approximate = \"tanh\"}\n", "add",
     "add, gelu_tanh"},
    {"exact_gelu", "m = matmul(a, b)\ns = add(m, v)\ny = gelu(s)\n", "add", "add"},
    {"scaled", "m = matmul(a, b)\ny = mul(m, v)\n", "", ""},
    {"transposed",
     "t = transpose(b) {perm = [1, 0]}\nu = transpose(t) {perm = [1, 0]}\n"
     "w = neg(b)\nx = transpose(w) {perm = [1, 0]}\nm = matmul(a, x) {trans_b = 1}\n"
     "y = add(m, v)\n",
     "add", "add"},
    {"heads",
     "h = reshape(a) {shape = [6, 2, 5]}\nt = transpose(h) {perm = [1, 0, 2]}\n"
     "u = transpose(h) {perm = [1, 2, 0]}\nm = matmul(t, u)\ny = relu(m)\n",
     "", "relu"},
    {"slice",
     "s = slice(a) {starts = [1], ends = [9], axes = [1]}\n"
     "c = slice(b) {starts = [2], ends = [10], axes = [0]}\nm = matmul(s, c)\n"
     "y = add(m, v)\n",
     "add", "add"},
};

std::string FastPostOps(Graph graph) {
  const PipelineOptions passes{.target = *Target::Parse("cuda-sm80"),
                               .libraries = kHostLibrary | kProductLibrary};
  EXPECT_THAT(RunPasses(graph, passes), IsOk());
  std::string names;
  for (const LibraryCall& call :
       FindLibraryCalls(graph, 3, {DeviceKind::kCuda, kHostLibrary | kProductLibrary, true})) {
    for (const LibraryPostOp& op : call.post_ops)
      absl::StrAppend(&names, names.empty() ? "" : ", ", op.name);
  }
  return names;
}

Tensor Numbers(std::vector<int64_t> shape, int64_t seed) {
  Tensor made = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < made.num_elements(); ++i)
    static_cast<float*>(made.data())[i] =
        static_cast<float>((i * 37 + seed * 11) % 89) * 0.03F - 1.2F;
  return made;
}

TEST_F(LibraryCalls, TakeAlongWhatFollowsAProduct) {
  const auto runtime = EmulatedRuntime();
  const std::vector<Tensor> inputs = {Numbers({6, 10}, 1), Numbers({10, 7}, 2), Numbers({7}, 3),
                                      Numbers({6, 7}, 4)};
  for (const Product& product : kProducts) {
    const Graph graph = *ParseGraph(
        absl::StrCat("graph g\ninput a : f32 [6, 10]\ninput b : f32 [10, 7]\ninput v : f32 [7]\n"
                     "input r : f32 [6, 7]\n",
                     product.text, "output y\n"));
    SCOPED_TRACE(product.what);
    KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, inputs, Options(runtime)));
    EXPECT_EQ(ComputedBy(ran), "cuBLASLt");
    EXPECT_EQ(PostOps(ran), product.post_ops);
    EXPECT_EQ(FastPostOps(graph), product.fast);
    ExpectAsReference(graph, inputs, ran.outputs);
  }
}

constexpr Product kConvolutions[] = {
    {"plain", "y = conv(x, w)\n", "", ""},
    {"own_bias", "y = conv(x, w, v)\n", "", ""},
    {"relu", "c = conv(x, w)\ny = relu(c)\n", "relu", "relu"},
    {"own_bias_relu", "c = conv(x, w, v)\ny = relu(c)\n", "relu", "relu"},
    {"residual", "c = conv(x, w, v)\ns = add(c, r)\ny = relu(s)\n", "add, relu", "add, relu"},
    {"vector", "c = conv(x, w)\ns = add(c, u)\ny = relu(s)\n", "add, relu", "add, relu"},
    {"two_vectors", "c = conv(x, w, v)\ns = add(c, u)\ny = sigmoid(s)\n", "add", "add"},
    {"two_sums", "c = conv(x, w, v)\ns = add(r, c)\nt = add(s, u)\ny = relu(t)\n", "add, add, relu",
     "add, add, relu"},
    {"relu_then_sum", "c = conv(x, w)\ns = relu(c)\ny = add(s, r)\n", "relu", "relu"},
    {"permuted", "c = conv(x, w)\nt = transpose(c) {perm = [0, 2, 3, 1]}\ny = relu(t)\n", "", ""},
};

TEST_F(LibraryCalls, TakeAlongWhatFollowsAConvolution) {
  const auto runtime = EmulatedRuntime();
  for (const int64_t channels : {2, 3}) {  // of 2 the fake has no call for all
    const std::vector<Tensor> inputs = {Numbers({2, channels, 5, 6}, 1),
                                        Numbers({4, channels, 3, 2}, 2), Numbers({4}, 3),
                                        Numbers({4, 1, 1}, 4), Numbers({2, 4, 3, 5}, 5)};
    for (const Product& convolution : kConvolutions) {
      SCOPED_TRACE(absl::StrCat(convolution.what, " of ", channels, " channels"));
      const Graph graph = *ParseGraph(absl::StrCat(
          "graph g\ninput x : f32 [2, ", channels, ", 5, 6]\ninput w : f32 [4, ", channels,
          ", 3, 2]\ninput v : f32 [4]\ninput u : f32 [4, 1, 1]\ninput r : f32 [2, 4, 3, 5]\n",
          convolution.text, "output y\n"));
      KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, inputs, Options(runtime)));
      EXPECT_EQ(ComputedBy(ran), "cuDNN");
      EXPECT_EQ(PostOps(ran), convolution.post_ops);
      ExpectAsReference(graph, inputs, ran.outputs);
    }
  }
}

constexpr char kTwoProducts[] =
    "graph g\ninput a : f32 [n, 8]\ninput b : f32 [8, 8]\ninput v : f32 [8]\n"
    "m = matmul(a, b)\ns = add(m, v)\nt = tanh(s)\ny = matmul(t, b)\noutput y\n";

std::vector<Tensor> TwoInputs() {
  return {Numbers({5, 8}, 1), Numbers({8, 8}, 2), Numbers({8}, 3)};
}

TEST_F(LibraryCalls, AskTheHeuristicsOncePerForm) {
  const Graph graph = *ParseGraph(kTwoProducts);
  const auto runtime = EmulatedRuntime();
  const std::vector<Tensor> inputs = TwoInputs();
  const auto queries = [&] {
    const uint64_t before = fakes_.cublaslt.queries();
    EXPECT_THAT(RunIt(graph, inputs, Options(runtime)), IsOk());
    return fakes_.cublaslt.queries() - before;
  };
  EXPECT_EQ(queries(), 4u);  // two forms, for aligned operands and for others
  EXPECT_EQ(queries(), 0u);
}

TEST_F(LibraryCalls, OfHalves) {
  const Graph graph = *ParseGraph(
      "graph g\ninput x : f16 [1, 3, 6, 6]\ninput w : f16 [4, 3, 3, 3]\ninput v : f16 [16, 5]\n"
      "c = conv(x, w)\nf = reshape(c) {shape = [4, 16]}\ny = matmul(f, v)\noutput y\n");
  std::vector<Tensor> inputs;
  for (const Tensor& numbers :
       {Numbers({1, 3, 6, 6}, 1), Numbers({4, 3, 3, 3}, 2), Numbers({16, 5}, 3)}) {
    Tensor& halves = inputs.emplace_back(Tensor::Allocate(DType::kF16, numbers.shape()));
    for (int64_t i = 0; i < numbers.num_elements(); ++i)
      static_cast<uint16_t*>(halves.data())[i] =
          FloatToHalf(static_cast<const float*>(numbers.data())[i]);
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, inputs, Options(EmulatedRuntime())));
  EXPECT_EQ(ComputedBy(ran), "cuDNN, cuBLASLt");
  ExpectAsReference(graph, inputs, ran.outputs);
}

// Convolutions of bf16, forward and backward; what is added to them is a kernel, as is one with a
// bias of its own, and a pool.
TEST_F(LibraryCalls, OfBFloats) {
  const Graph graph = *ParseGraph(
      "graph g\ninput x : bf16 [1, 3, 6, 6]\ninput w : bf16 [3, 3, 3, 3]\ninput v : bf16 [3]\n"
      "c = conv(x, w) {pads = [1, 1, 1, 1]}\nr = relu(c)\n"
      "p = average_pool(r) {kernel = [2, 2]}\nt = conv_transpose(p, w)\n"
      "d = conv_backward_weights(x, c) {kernel = [3, 3], pads = [1, 1, 1, 1]}\n"
      "b = conv(p, w, v)\n"
      "output t\noutput d\noutput b\n");
  std::vector<Tensor> inputs;
  for (const Tensor& numbers :
       {Numbers({1, 3, 6, 6}, 1), Numbers({3, 3, 3, 3}, 2), Numbers({3}, 3)}) {
    Tensor& narrow = inputs.emplace_back(Tensor::Allocate(DType::kBF16, numbers.shape()));
    for (int64_t i = 0; i < numbers.num_elements(); ++i)
      static_cast<uint16_t*>(narrow.data())[i] =
          FloatToBFloat(static_cast<const float*>(numbers.data())[i]);
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, inputs, Options(EmulatedRuntime())));
  std::vector<std::string> ops;
  for (const PlannedCall& call : ran.calls) ops.push_back(call.op);
  EXPECT_THAT(ops, testing::UnorderedElementsAre("conv", "conv_transpose", "conv_backward_weights"))
      << ComputedBy(ran);
  EXPECT_EQ(ComputedBy(ran), "cuDNN, cuDNN, cuDNN");
  ExpectAsReference(graph, inputs, ran.outputs);
}

TEST_F(LibraryCalls, OfSamplesThatAreKeptApart) {
  const Graph graph = *ParseGraph(
      "graph g\ninput a : f32 [n, 4, 8]\ninput b : f32 [8, 8]\nm = matmul(a, b)\n"
      "y = matmul(m, b)\noutput y\n");
  const std::vector<Tensor> inputs = {Numbers({3, 4, 8}, 1), Numbers({8, 8}, 2)};
  CompileOptions options = Options(EmulatedRuntime());
  options.batch_invariant = true;
  KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, inputs, options));
  ExpectAsReference(graph, inputs, ran.outputs);
  EXPECT_EQ(fakes_.cublaslt.computed(), 6u);  // two calls for each of three samples
}

TEST_F(LibraryCalls, RunOnCopiesWhereTheLibraryHasNoAlgorithm) {
  const Graph graph = *ParseGraph(kTwoProducts);
  const std::vector<Tensor> inputs = TwoInputs();
  fakes_.cublaslt.refuse(1);
  KILN_ASSERT_OK_AND_ASSIGN(const Ran ran, RunIt(graph, inputs, Options(EmulatedRuntime())));
  ASSERT_EQ(ran.calls.size(), 2u);
  EXPECT_THAT(ComputedBy(ran), HasSubstr("on copies in the host's memory"));
  EXPECT_THAT(ran.calls[0].considered[0].refusal, HasSubstr("has no algorithm"));
  ExpectAsReference(graph, inputs, ran.outputs);
  EXPECT_EQ(fakes_.cublaslt.computed(), 0u);
}

constexpr char kNetwork[] =
    "graph g\ninput x : f32 [1, 3, 6, 6]\ninput w : f32 [2, 3, 3, 3]\ninput v : f32 [2]\n"
    "c = conv(x, w, v)\nr = relu(c)\np = max_pool(r) {kernel = [2, 2], strides = [2, 2]}\n"
    "d = conv_transpose(p, w)\ny = tanh(d)\n"
    "z = conv_backward_weights(x, c) {kernel = [3, 3]}\n"
    "g = average_pool_backward(p) {kernel = [2, 2], strides = [2, 2], shape = [1, 2, 4, 4]}\n"
    "output y\noutput z\noutput g\n";

// Each call of a library may fail: a status or the right values, nothing is left of it, and the
// next run is as ever.
void ExpectStatuses(const Graph& graph, const std::vector<Tensor>& inputs, Fake& fake,
                    const std::vector<int>& statuses) {
  KILN_ASSERT_OK(RunIt(graph, inputs, Options(EmulatedRuntime())).status());
  const uint64_t calls = fake.calls();
  ASSERT_GT(calls, 20u);
  uint64_t failed = 0;
  for (uint64_t k = 1; k <= calls; ++k) {
    for (const int status : statuses) {
      SCOPED_TRACE(absl::StrCat("call ", k, " of ", calls, " answers ", status));
      const auto runtime = EmulatedRuntime();
      fake.fail_at(k, status);
      const absl::StatusOr<Ran> ran = RunIt(graph, inputs, Options(runtime));
      fake.fail_at(0, 0);
      if (ran.ok()) ExpectAsReference(graph, inputs, ran->outputs);
      failed += ran.ok() ? 0 : 1;
      KILN_ASSERT_OK_AND_ASSIGN(const Ran again, RunIt(graph, inputs, Options(runtime)));
      ExpectAsReference(graph, inputs, again.outputs);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
  EXPECT_GT(failed, calls);
  EXPECT_EQ(fake.objects(), 0u);
}

TEST_F(LibraryCalls, AnErrorAtAnyCallOfCublasLtIsAStatus) {
  ExpectStatuses(*ParseGraph(kTwoProducts), TwoInputs(), fakes_.cublaslt, {3, 13, 15});
}

TEST_F(LibraryCalls, AnErrorAtAnyCallOfCudnnIsAStatus) {
  ExpectStatuses(*ParseGraph(kNetwork),
                 {Numbers({1, 3, 6, 6}, 1), Numbers({2, 3, 3, 3}, 2), Numbers({2}, 3)},
                 fakes_.cudnn, {3000, 4004, 5000});
}

TEST_F(LibraryCalls, AreMadeWhereTheLibraryIsFoundOrAskedFor) {
  const Graph graph = *ParseGraph(kTwoProducts);
  const std::vector<Tensor> inputs = TwoInputs();
  CompileOptions options = Options(EmulatedRuntime());
  options.device_library = DeviceLibrary::kNever;
  KILN_ASSERT_OK_AND_ASSIGN(const Ran never, RunIt(graph, inputs, options));
  EXPECT_TRUE(never.calls.empty());
  unsetenv("KILN_CUBLASLT");
  unsetenv("KILN_CUDNN");
  options = Options(EmulatedRuntime());
  KILN_ASSERT_OK_AND_ASSIGN(const Ran none, RunIt(graph, inputs, options));
  EXPECT_TRUE(none.calls.empty());
  options.device_library = DeviceLibrary::kAlways;
  const absl::Status missing = RunIt(graph, inputs, options).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(missing.message(), HasSubstr("compile without library calls"));
}

TEST_F(LibraryCalls, NeedAVersionThatIsKnown) {
  const Graph graph = *ParseGraph(kTwoProducts);
  const std::vector<Tensor> inputs = TwoInputs();
  fakes_.cublaslt.set_version(111103);
  CompileOptions options = Options(EmulatedRuntime());
  KILN_ASSERT_OK_AND_ASSIGN(const Ran old, RunIt(graph, inputs, options));
  EXPECT_TRUE(old.calls.empty());
  options.device_library = DeviceLibrary::kAlways;
  EXPECT_THAT(RunIt(graph, inputs, options).status().message(),
              HasSubstr("cuBLASLt: it is version 11.11.3, at least 12.0.0 is needed; install"));
}

// A package has the calls that it was made with, and is loaded only where their library is.
TEST_F(LibraryCalls, AreCheckedWhenAPackageIsLoaded) {
  const Graph graph = *ParseGraph(
      "graph g\ninput a : f32 [5, 8]\ninput b : f32 [8, 8]\ny = matmul(a, b)\noutput y\n");
  const std::vector<Tensor> inputs = {Numbers({5, 8}, 1), Numbers({8, 8}, 2)};
  const TempDir cache;
  CompileOptions options = Options(nullptr);
  options.device_library = DeviceLibrary::kAlways;
  options.cache.enabled = true;
  options.cache.directory = cache.path();
  options.kernels = std::make_shared<KernelService>(options);
  KILN_ASSERT_OK_AND_ASSIGN(
      const Variant variant,
      CompileFor(graph, options, {{"a", true, inputs[0]}, {"b", true, inputs[1]}}));
  PackageWriter writer(PortInfosOf(graph, true), PortInfosOf(graph, false), options.math);
  KILN_ASSERT_OK(writer.Add(*options.target, variant));
  KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes, writer.Encode(*options.kernels->store()));
  const auto load = [&] {
    RunOptions run;
    run.threads = 1;
    run.runtime = EmulatedRuntime();
    return LoadPackage(PackageSource::Memory(bytes.data(), bytes.size(), nullptr), run, {});
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, load());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                            model.Run({{"a", inputs[0]}, {"b", inputs[1]}}));
  ExpectAsReference(graph, inputs, got);
  EXPECT_EQ(fakes_.cublaslt.computed(), 1u);
  unsetenv("KILN_CUBLASLT");
  const absl::Status missing = load().status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition) << missing;
  EXPECT_THAT(missing.message(), HasSubstr("calls a library for \"matmul\""));
}

}  // namespace
}  // namespace kiln
