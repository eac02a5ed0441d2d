// SPDX-License-Identifier: Apache-2.0
// A model of five nodes, compiled and run while one allocation, or one start of a thread, fails:
// each gives a Status or the right result, and the next one is right.
#include "tests/fault/failing_resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/cpu_features.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "exec/package/package.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/packages_fuzz_models.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr char kGraph[] =
    "graph g\n"
    "input x : f32 [n, 4]\n"
    "const w : f32 [4, 4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
    "a = matmul(x, w)\n"
    "b = exp(a)\n"
    "c = reduce_sum(b) {axes = [1], keepdims = 1}\n"
    "d = div(b, c)\n"
    "e = relu(d)\n"
    "output e\n";

using Result = absl::StatusOr<Tensor>;

class FailingResources : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    std::ofstream(path_) << kGraph;
    for (int i = 0; i < x_.num_elements(); ++i)
      static_cast<float*>(x_.data())[i] = static_cast<float>(i % 5) * 0.0625f;
    const Result first = CompileAndRun(OnVm());
    ASSERT_TRUE(first.ok()) << first.status();
    expected_ = first->Clone();
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions OnVm() const {
    CompileOptions options;
    options.cache.enabled = false;
    options.compile_mode = CompileMode::kNever;
    options.threads = 2;
    return options;
  }
  CompileOptions Compiled(const std::string& cache) const {
    CompileOptions options;
    options.cache.directory = dir_.File(cache);
    options.threads = 2;
    options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
    return options;
  }
  // Allocates nothing itself: what it throws is Kiln's.
  Result CompileAndRun(const CompileOptions& options) const {
    return CompileAndRun(path_, options);
  }
  Result CompileAndRun(const std::string& path, const CompileOptions& options) const {
    absl::StatusOr<Model> model = Compile(path, options);
    return model.ok() ? Run(*model) : Result(model.status());
  }
  Result Run(Model& model) const {
    absl::StatusOr<std::vector<Tensor>> results = model.Run(inputs_);
    return results.ok() ? Result(std::move((*results)[0])) : Result(results.status());
  }
  void ExpectRight(const Result& result, const std::string& what) const {
    ASSERT_TRUE(result.ok()) << what << ": " << result.status();
    EXPECT_TRUE(CompareBits(*result, expected_).ok) << what;
  }

  // Fails each `stride`-th of the first 2,000 that `once` asks for, then 500 of the rest; `again`
  // follows each. Both have the options of its number.
  using Options = std::function<CompileOptions(int64_t)>;
  using Try = std::function<Result(const CompileOptions&)>;
  void FailEach(Resource resource, int64_t stride, const Options& options_of, const Try& once,
                const Try& again) {
    const CompileOptions options = options_of(0);
    FailAt(resource, 0);
    const Result first = once(options);
    const int64_t all = FailNone();
    ExpectRight(first, "nothing failed");
    EXPECT_GT(all, 0);
    constexpr int64_t kFirst = 2000, kSpread = 500;
    const int64_t far = std::max<int64_t>(1, (all - kFirst) / kSpread) * stride;
    int64_t failed = 0;
    for (int64_t k = 1; k <= all && !HasFailure(); k += k < kFirst ? stride : far) {
      const std::string what = absl::StrCat("failure ", k, " of ", all);
      if (std::getenv("KILN_FAILING_PRINT") != nullptr) std::cerr << what << std::endl;
      const CompileOptions own = options_of(k);
      FailAt(resource, k);
      const Result result = once(own);
      FailNone();
      failed += result.ok() ? 0 : 1;
      if (result.ok()) ExpectRight(result, what);
      ExpectRight(again(own), absl::StrCat("after ", what));
    }
    std::cout << all << " asked for; " << failed << " of those that failed gave a Status\n";
  }

  const int64_t stride_ = static_cast<int64_t>(FromEnvironment("KILN_FAILING_STRIDE", 13));
  const TempDir dir_;
  const std::string path_ = dir_.File("model.graph");
  Tensor x_ = Tensor::Allocate(DType::kF32, {9, 4});
  const std::vector<std::pair<std::string, Tensor>> inputs_ = {{"x", x_}};
  Tensor expected_;
};

TEST_F(FailingResources, MemoryWhereNothingIsCompiled) {
  const auto once = [&](const CompileOptions& options) { return CompileAndRun(options); };
  FailEach(
      Resource::kMemory, stride_, [&](int64_t) { return OnVm(); }, once, once);
}

// The same model as ONNX.
TEST_F(FailingResources, MemoryWhereOnnxIsImported) {
  std::vector<float> weights(16);
  std::iota(weights.begin(), weights.end(), 1.f);
  const std::string graph =
      OnnxGraph({OnnxNode("MatMul", {"x", "w"}, {"a"}), OnnxNode("Exp", {"a"}, {"b"}),
                 OnnxNode("ReduceSum", {"b", "axes"}, {"c"}, {IntAttribute("keepdims", 1)}),
                 OnnxNode("Div", {"b", "c"}, {"d"}), OnnxNode("Relu", {"d"}, {"e"})},
                {OnnxValue("x", kFloat, {"n", 4})}, {OnnxValue("e", kFloat, {"n", 4})},
                {OnnxTensor("w", kFloat, {4, 4}, RawBytes(weights)), OnnxInts("axes", {1})});
  const std::string path = dir_.File("model.onnx");
  std::ofstream(path, std::ios::binary) << OnnxModel(17, graph);
  const auto once = [&](const CompileOptions& options) { return CompileAndRun(path, options); };
  FailEach(
      Resource::kMemory, stride_, [&](int64_t) { return OnVm(); }, once, once);
}

// And as a package.
TEST_F(FailingResources, MemoryWhereAPackageIsLoaded) {
  if (!HostTarget().compiles()) GTEST_SKIP() << "the package is for x86-64-v3";
  const std::string path = dir_.File("model.kiln");
  KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes, PackageOf(kGraph, dir_.File("package")));
  std::ofstream(path, std::ios::binary) << bytes;
  const auto once = [&](const CompileOptions&) -> Result {
    absl::StatusOr<Model> model = LoadPackage(path, {.threads = 2});
    return model.ok() ? Run(*model) : Result(model.status());
  };
  FailEach(
      Resource::kMemory, stride_, [&](int64_t) { return OnVm(); }, once, once);
}

TEST_F(FailingResources, MemoryInRunsOfOneModel) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path_, OnVm()));
  Tensor x;
  const auto options_of = [&](int64_t) {
    x = x_;
    return OnVm();
  };
  const auto once = [&](const CompileOptions&) -> Result {
    Context context = model.NewContext();
    KILN_RETURN_IF_ERROR(context.Bind("x", std::move(x)));
    KILN_RETURN_IF_ERROR(context.Run());
    return context.Output("e");
  };
  FailEach(Resource::kMemory, 1, options_of, once,
           [&](const CompileOptions&) { return Run(model); });
}

TEST_F(FailingResources, MemoryWithAWarmCache) {
  ExpectRight(CompileAndRun(Compiled("warm")), "cold");
  const auto once = [&](const CompileOptions& options) { return CompileAndRun(options); };
  FailEach(
      Resource::kMemory, stride_, [&](int64_t) { return Compiled("warm"); }, once, once);
}

TEST_F(FailingResources, MemoryWithAColdCache) {
  const auto once = [&](const CompileOptions& options) { return CompileAndRun(options); };
  FailEach(
      Resource::kMemory, stride_ * 7, [&](int64_t k) { return Compiled(absl::StrCat("cold", k)); },
      once, once);
}

TEST_F(FailingResources, Threads) {
  const auto once = [&](const CompileOptions& options) { return CompileAndRun(options); };
  FailEach(
      Resource::kThread, 1, [&](int64_t k) { return Compiled(absl::StrCat("threads", k)); }, once,
      once);
}

}  // namespace
}  // namespace kiln
