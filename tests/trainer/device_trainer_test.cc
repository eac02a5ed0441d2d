// SPDX-License-Identifier: Apache-2.0
// Trainers on the emulated GPU: steps, evaluations and checkpoints have the bits of the VM, and a
// step in which the driver fails leaves the trainer as it was, or says that it did not.
// KILN_TRAINED_NETWORKS random networks, from the seed KILN_SEED on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "compiler/kernel_service.h"
#include "kiln/runtime.h"
#include "kiln/trainer.h"
#include "ptx_emulator/control.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/trainer/plain_graph.h"
#include "tests/trainer/plain_network.h"
#include "tests/trainer/stateful_network.h"

namespace kiln {
namespace {

using training::DrawnNetwork;
using training::PlainNetwork;

class DeviceTrainer : public testing::Test {
 protected:
  static std::shared_ptr<Runtime> NewRuntime() {
    auto runtime = Runtime::Create({.threads = 1, .device = "cuda-emulated"});
    EXPECT_THAT(runtime, IsOk());
    return runtime.ok() ? *std::move(runtime) : nullptr;
  }
  // Products are kernels on both sides: the library of the CPU sums in another order.
  CompileOptions Options(CompileMode mode) const {
    CompileOptions options;
    options.threads = 1;
    options.runtime = runtime_;
    options.target = Target::Parse("cuda-sm80");
    options.compile_mode = mode;
    return options;
  }
  // A trainer that differs in nothing but who computes.
  static absl::StatusOr<Trainer> Make(GraphBuilder graph, TrainerOptions options,
                                      const CompileOptions& compile) {
    options.compile = compile;
    return Trainer::Create(std::move(graph), options);
  }

  static void ExpectSameState(const Trainer& got, const Trainer& want) {
    for (const auto* ports : {&want.parameters(), &want.statistics()}) {
      for (const PortInfo& port : *ports) {
        KILN_ASSERT_OK_AND_ASSIGN(const Tensor a, got.Parameter(port.name));
        KILN_ASSERT_OK_AND_ASSIGN(const Tensor b, want.Parameter(port.name));
        const Comparison comparison = CompareBits(a, b);
        EXPECT_TRUE(comparison.ok) << port.name << ": " << comparison.what;
      }
    }
  }

  void ExpectSameSteps(const std::function<GraphBuilder()>& graph, const TrainerOptions& options,
                       const std::function<NamedTensors(unsigned)>& data, unsigned steps) {
    CompileOptions compiled = Options(CompileMode::kBlock);
    compiled.kernels = kernels_;
    KILN_ASSERT_OK_AND_ASSIGN(Trainer device, Make(graph(), options, compiled));
    KILN_ASSERT_OK_AND_ASSIGN(Trainer vm, Make(graph(), options, Options(CompileMode::kNever)));
    for (unsigned step = 0; step < steps; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step));
      const NamedTensors inputs = data(step);
      KILN_ASSERT_OK_AND_ASSIGN(const double got, device.Step(inputs));
      KILN_ASSERT_OK_AND_ASSIGN(const double want, vm.Step(inputs));
      EXPECT_EQ(got, want);
      ExpectSameState(device, vm);
      if (step + 1 < steps) continue;
      KILN_ASSERT_OK_AND_ASSIGN(const Evaluation seen, device.Evaluate(inputs));
      KILN_ASSERT_OK_AND_ASSIGN(const Evaluation wanted, vm.Evaluate(inputs));
      EXPECT_EQ(seen.loss, wanted.loss);
      for (size_t k = 0; k < seen.outputs.size(); ++k)
        EXPECT_TRUE(CompareBits(seen.outputs[k], wanted.outputs[k]).ok);
    }
    EXPECT_EQ(kernels_->counts().failed, 0) << "a kernel could not be built, or is wrong";
    EXPECT_EQ(kernels_->counts().unvalidated, 0);
  }

  const std::shared_ptr<Runtime> runtime_ = NewRuntime();
  const std::shared_ptr<KernelService> kernels_ =
      std::make_shared<KernelService>(Options(CompileMode::kBlock));
};

TEST_F(DeviceTrainer, RandomNetworksHaveTheBitsOfTheVm) {
  const uint64_t networks = FromEnvironment("KILN_TRAINED_NETWORKS", 1);
  const uint64_t seed = FromEnvironment("KILN_SEED", 1);
  for (uint64_t k = seed; k < seed + networks && !HasFailure(); ++k) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", k));
    std::mt19937 random(static_cast<unsigned>(k));
    const PlainNetwork net = DrawnNetwork(random);
    TrainerOptions options;
    options.micro_batches = 1 + static_cast<int>(random() % 3);
    options.clip_norm = net.clip_norm;
    options.precision = std::vector<DType>{DType::kF32, DType::kBF16, DType::kF16}[random() % 3];
    const training::Optimizer optimizers[] = {training::Adam(),    training::Sgd{.momentum = 0.5},
                                              training::Lion(),    training::RmsProp(),
                                              training::Adagrad(), training::AdamW()};
    options.optimizer = optimizers[random() % 6];
    const auto out = static_cast<int64_t>(net.widths.back());
    const auto data = [&](unsigned step) -> NamedTensors {
      const int64_t n = options.micro_batches * (1 + (step * 7 + static_cast<unsigned>(k)) % 40);
      return {{"x", Drawn({n, static_cast<int64_t>(net.widths[0])}, step)},
              {"labels", Classes(n, out, step)}};
    };
    ExpectSameSteps([&] { return GraphOf(net); }, options, data, 3);
  }
}

TEST_F(DeviceTrainer, NormsAndDropoutHaveTheBitsOfTheVm) {
  TrainerOptions options;
  options.micro_batches = 2;
  options.seed = 7;
  ExpectSameSteps(Stateful, options, StepData, 3);
}

void StartAnew() {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.strict = 1;
  kiln_ptx_configure(&config);
}

// Every call of the driver in a step fails, in turn and once. Whatever the step says, a trainer
// that goes on from what is there has the bits of one that was left alone.
TEST_F(DeviceTrainer, AFailedStepChangesNothingOrSaysSo) {
  const TempDir folder;
  const std::string before = folder.File("before.safetensors"), saved = folder.File("saved");
  TrainerOptions options;
  options.micro_batches = 2;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer vm, Make(Stateful(), options, Options(CompileMode::kNever)));
  KILN_ASSERT_OK(vm.Step(StepData(0)).status());
  KILN_ASSERT_OK(vm.Save(before));
  KILN_ASSERT_OK_AND_ASSIGN(const double want, vm.Step(StepData(1)));
  const auto failing = [&](uint64_t k, int result, uint64_t* calls) {
    StartAnew();
    CompileOptions compile = Options(CompileMode::kBlock);
    compile.runtime = NewRuntime();
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Make(Stateful(), options, compile));
    KILN_ASSERT_OK(trainer.Step(StepData(5)).status());
    KILN_ASSERT_OK(trainer.Load(before).status());
    const uint64_t at = kiln_ptx_calls(nullptr);
    kiln_ptx_fail_at(k, result, k == 0 ? 0 : 1);
    absl::StatusOr<double> loss = trainer.Step(StepData(1));
    kiln_ptx_fail_at(0, 0, 0);
    if (calls != nullptr) *calls = kiln_ptx_calls(nullptr) - at;
    if (!loss.ok()) {
      const bool lost = absl::StrContains(loss.status().message(), "load a checkpoint");
      EXPECT_EQ(trainer.Save(saved).ok(), !lost) << loss.status();
      if (lost) KILN_ASSERT_OK(trainer.Load(before).status());
      if (!lost) {
        EXPECT_EQ(trainer.step(), 1);
      }
      loss = trainer.Step(StepData(1));
      // A device that is lost to this trainer: another one goes on.
      if (absl::IsUnavailable(loss.status())) {
        KILN_ASSERT_OK_AND_ASSIGN(Trainer next,
                                  Make(Stateful(), options, Options(CompileMode::kNever)));
        KILN_ASSERT_OK(next.Load(lost ? before : saved).status());
        loss = next.Step(StepData(1));
        KILN_ASSERT_OK(loss.status());
        EXPECT_EQ(*loss, want);
        return ExpectSameState(next, vm);
      }
    }
    KILN_ASSERT_OK(loss.status());
    EXPECT_EQ(*loss, want);
    ExpectSameState(trainer, vm);
  };
  uint64_t calls = 0;
  failing(0, 0, &calls);
  ASSERT_GT(calls, 20u);
  const uint64_t every = FromEnvironment("KILN_EVERY", 29);
  constexpr int kOutOfMemory = 2, kUnknown = 999, kIllegalAddress = 700;
  for (uint64_t k = 1; k <= calls && !HasFailure(); k += every) {
    for (const int result : {kOutOfMemory, kUnknown, kIllegalAddress}) {
      SCOPED_TRACE(absl::StrCat("call ", k, " of ", calls, " answers ", result));
      failing(k, result, nullptr);
    }
  }
}

}  // namespace
}  // namespace kiln
