// SPDX-License-Identifier: Apache-2.0
// Trainers on the emulated GPU: losses, parameters and statistics have the bits of the VM, and are
// those of the CPU but for the order of products' sums.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "kiln/runtime.h"
#include "kiln/target.h"
#include "kiln/trainer.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/graph/tensors.h"
#include "tests/trainer/stateful_network.h"

namespace kiln {
namespace {

// A convolution, batch norm, pool and classifier.
GraphBuilder SmallConvNet() {
  GraphBuilder b("conv");
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 2, 6, 6});
  const auto constant = [&](const char* name, std::vector<int64_t> shape, unsigned seed) {
    return b.Constant(Drawn(std::move(shape), seed), name);
  };
  const ValueId c = b.Op("conv", {x, constant("k", {4, 2, 3, 3}, 1)},
                         {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const ValueId mean = b.Constant(F32({4}, training::Numbers(4, 0)), "running_mean");
  const ValueId variance = b.Constant(F32({4}, training::Numbers(4, 1)), "running_var");
  const ValueId normal =
      b.Op("batch_norm", {c, constant("scale", {4}, 2), constant("bias", {4}, 3), mean, variance});
  const ValueId pooled =
      b.Op("max_pool", {b.Op("relu", {normal})},
           {{"kernel", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  const ValueId flat = b.Op("reduce_mean", {pooled},
                            {{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{0}}});
  b.Output(b.Op("matmul", {flat, constant("w", {4, 3}, 4)}), "logits");
  return b;
}

NamedTensors Images(unsigned step) {
  return {{"x", Drawn({8, 2, 6, 6}, 100 + step)}, {"labels", Classes(8, 3, 200 + step)}};
}

enum class On { kCpu, kDeviceVm, kDevice };

class TrainerOnDevice : public testing::Test {
 protected:
  TrainerOptions Options(On on) const {
    TrainerOptions options;
    options.seed = 5;
    options.micro_batches = 2;
    options.clip_norm = 1;
    options.optimizer = training::AdamW();
    options.schedule.lr = 0.01;
    options.compile.cache.directory = cache_.path();
    options.compile.threads = 1;
    options.compile.compile_mode = on == On::kDevice ? CompileMode::kBlock : CompileMode::kNever;
    if (on == On::kCpu) return options;
    options.compile.runtime = runtime_;
    options.compile.target = Target::Parse("cuda-sm80");
    return options;
  }

  // Losses of two steps, and the file of the checkpoint behind them.
  void ExpectAlike(GraphBuilder (*graph)(), NamedTensors (*data)(unsigned)) {
    std::vector<std::vector<double>> losses;
    std::vector<std::string> files;
    std::vector<Evaluation> evaluations;
    for (const On on : {On::kDevice, On::kDeviceVm, On::kCpu}) {
      SCOPED_TRACE(static_cast<int>(on));
      KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(graph(), Options(on)));
      losses.emplace_back();
      for (unsigned step = 0; step < 2; ++step) {
        KILN_ASSERT_OK_AND_ASSIGN(losses.back().emplace_back(), trainer.Step(data(step)));
      }
      KILN_ASSERT_OK_AND_ASSIGN(evaluations.emplace_back(), trainer.Evaluate(data(9)));
      files.push_back(cache_.File(absl::StrCat("run", files.size())));
      KILN_ASSERT_OK(trainer.Save(files.back()));
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_EQ(Contents(files[0]), Contents(files[1]));
    EXPECT_EQ(Values(evaluations[0].outputs.at(0)), Values(evaluations[1].outputs.at(0)));
    for (size_t step = 0; step < 2; ++step)
      EXPECT_NEAR(losses[0][step], losses[2][step], 1e-4 * (1 + std::fabs(losses[2][step])));
    EXPECT_NEAR(evaluations[0].loss, evaluations[2].loss, 1e-3);
    // What the device has saved goes on here.
    KILN_ASSERT_OK_AND_ASSIGN(Trainer here, Trainer::Create(graph(), Options(On::kCpu)));
    KILN_ASSERT_OK(here.Load(files[0]).status());
    EXPECT_EQ(here.step(), 2);
    KILN_ASSERT_OK_AND_ASSIGN(const Evaluation again, here.Evaluate(data(9)));
    EXPECT_NEAR(again.loss, evaluations[0].loss, 1e-5);
  }

  const TempDir cache_;
  const std::shared_ptr<Runtime> runtime_ = [] {
    auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
    EXPECT_THAT(runtime, IsOk());
    return runtime.ok() ? *std::move(runtime) : nullptr;
  }();
};

TEST_F(TrainerOnDevice, APerceptronWithStatesAndDropout) { ExpectAlike(&Stateful, &StepData); }

// With KILN_EVERY=1: its kernels take a while to build.
TEST_F(TrainerOnDevice, AConvolution) {
  if (FromEnvironment("KILN_EVERY", 16) == 1) ExpectAlike(&SmallConvNet, &Images);
}

}  // namespace
}  // namespace kiln
