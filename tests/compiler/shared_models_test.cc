// SPDX-License-Identifier: Apache-2.0
// What models of one runtime share, and that one thread stays one.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "compiler/compile.h"
#include "compiler/shared_models.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/base/threads_of_process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr int kWidth = 4096;

// y = (x + w) * (w + w).
std::string ModelOf(float w) {
  return OnnxModel(
      17, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"a"}), OnnxNode("Add", {"w", "w"}, {"b"}),
                     OnnxNode("Mul", {"a", "b"}, {"y"})},
                    {OnnxValue("x", kFloat, {"n", kWidth})}, {OnnxValue("y", kFloat, {})},
                    {OnnxFloats("w", std::vector<float>(kWidth, w))}));
}

class SharedModelsTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    Write(1);
    RuntimeOptions options;
    options.threads = 1;
    options.cache.directory = dir_.File("cache");
    runtime_ = *Runtime::Create(std::move(options));
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  void Write(float w) {
    std::ofstream(dir_.File("new"), std::ios::binary) << ModelOf(w);
    std::filesystem::rename(dir_.File("new"), path_);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }

  CompileOptions Options(CompileMode mode = CompileMode::kNever) {
    CompileOptions options;
    options.runtime = runtime_;
    options.threads = 1;
    options.compile_mode = mode;
    return options;
  }

  float Run(Model& model, float x) {
    Tensor input = Tensor::Allocate(DType::kF32, {1, kWidth});
    for (int i = 0; i < kWidth; ++i) static_cast<float*>(input.data())[i] = x;
    const auto y = model.Run({{"x", input}});
    EXPECT_TRUE(y.ok()) << y.status();
    return y.ok() ? static_cast<const float*>((*y)[0].data())[kWidth - 1] : 0;
  }

  const TempDir dir_;
  const std::string path_ = dir_.File("model.onnx");
  std::shared_ptr<Runtime> runtime_;
};

TEST_F(SharedModelsTest, ModelsOfOneFileAreOne) {
  KILN_ASSERT_OK_AND_ASSIGN(Model first, Compile(path_, Options()));
  EXPECT_EQ(Run(first, 2), 6);
  KILN_ASSERT_OK_AND_ASSIGN(Model second, Compile(path_, Options()));
  EXPECT_EQ(Run(second, 3), 8);
  // The ports of one provider lie in one place.
  EXPECT_EQ(&first.inputs(), &second.inputs());
  CompileOptions other = Options();
  other.graph_opt_level = 0;
  KILN_ASSERT_OK_AND_ASSIGN(Model third, Compile(path_, other));
  EXPECT_NE(&first.inputs(), &third.inputs());
  EXPECT_EQ(Run(third, 3), 8);
  other.cache.enabled = false;  // nothing tells that it is the same
  KILN_ASSERT_OK_AND_ASSIGN(Model fourth, Compile(path_, other));
  EXPECT_NE(&first.inputs(), &fourth.inputs());
  EXPECT_EQ(Run(fourth, 3), 8);
}

TEST_F(SharedModelsTest, AFileThatWasReplacedIsAnotherModel) {
  KILN_ASSERT_OK_AND_ASSIGN(Model before, Compile(path_, Options()));
  EXPECT_EQ(Run(before, 2), 6);
  Write(2);
  KILN_ASSERT_OK_AND_ASSIGN(Model after, Compile(path_, Options()));
  EXPECT_EQ(Run(after, 2), 16);
  EXPECT_EQ(Run(before, 2), 6);
}

TEST_F(SharedModelsTest, NothingIsKeptAlive) {
  const auto shared = SharedModels::Of(*runtime_);
  CompileOptions options = Options();
  options.cache.directory = dir_.File("cache");  // as the runtime's
  std::weak_ptr<KernelService> service = shared->ServiceOf(options);
  EXPECT_TRUE(service.expired());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path_, Options()));
  service = shared->ServiceOf(options);
  EXPECT_FALSE(service.expired());
  model = Model();
  EXPECT_TRUE(service.expired());
}

// Kernels are built, validated and published on the caller's thread.
TEST_F(SharedModelsTest, OneThreadStaysOne) {
  const int before = ThreadsOfProcess();
  std::atomic<int> most{0};
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      most = std::max(most.load(), ThreadsOfProcess());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path_, Options(CompileMode::kBlock)));
    EXPECT_EQ(Run(model, 2), 6);
    EXPECT_GE(runtime_->metrics().kernels_built + runtime_->metrics().kernels_cached, 1);
  }
  stop = true;
  watcher.join();
  EXPECT_EQ(most, before + 1);  // the watcher
  runtime_->Maintain();
}

TEST_F(SharedModelsTest, MetricsCountWhatModelsDo) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path_, Options()));
  EXPECT_EQ(Run(model, 2), 6);
  EXPECT_EQ(Run(model, 2), 6);
  EXPECT_FALSE(model.Run({}).ok());
  const RuntimeMetrics metrics = runtime_->metrics();
  EXPECT_EQ(metrics.runs, 2);
  EXPECT_EQ(metrics.failed_runs, 1);
  EXPECT_EQ(metrics.vm_runs, 2);
  EXPECT_EQ(metrics.plans, 1);
  EXPECT_EQ(metrics.variants, 1);
  EXPECT_GT(metrics.memory_bytes, 0);
  EXPECT_EQ(metrics.idle_bytes, model.memory().idle_bytes);
}

// They are counts since the runtime was made: what read them before must not see less.
TEST_F(SharedModelsTest, CountsOfKernelsDoNotFallWhenModelsGo) {
  int64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path_, Options(CompileMode::kBlock)));
    EXPECT_EQ(Run(model, 2), 6);
    const auto count = [&] {
      const RuntimeMetrics metrics = runtime_->metrics();
      return metrics.kernels_built + metrics.kernels_cached + metrics.kernels_failed;
    };
    const int64_t there = count();
    EXPECT_GT(there, before);
    model = Model();
    EXPECT_EQ(count(), there);
    before = there;
  }
}

}  // namespace
}  // namespace kiln
