// SPDX-License-Identifier: Apache-2.0
// Runs of programs on the emulated GPU, again and again: the bits of the same program on the CPU's
// VM, wherever inputs and outputs lie, and how often the driver is called. KILN_DEVICE_PROGRAMS
// programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/gpu.h"
#include "ptx_emulator/control.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/twins.h"

namespace kiln {
namespace {

TEST(DeviceRuns, OfRandomProgramsGiveTheBitsOfTheCpu) {
  const auto programs = static_cast<uint64_t>(FromEnvironment("KILN_DEVICE_PROGRAMS", 40));
  const auto first = static_cast<uint64_t>(FromEnvironment("KILN_SEED", 1));
  Restart();
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  for (uint64_t seed = first; seed < first + programs && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    Twins twins;
    KILN_ASSERT_OK(twins.Make(seed, {}, runtime));
    Binder binder(twins, seed);
    for (int run = 0; run < 12 && !testing::Test::HasFailure(); ++run) {
      binder.Bind(run == 0);
      twins.Run(absl::StrCat("run ", run));
    }
  }
  EXPECT_EQ(TakeFindings(), "");
  EXPECT_GT(kiln_ptx_calls("cuGraphLaunch"), 0u);
}

// Two buffers of the host take turns as the state.
TEST(DeviceRuns, OfProgramsWithAStateGiveTheBitsOfTheCpu) {
  Restart();
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  for (uint64_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Twins twins;
    KILN_ASSERT_OK(twins.Make(seed, {.state = true}, runtime));
    std::mt19937_64 random(seed);
    const Tensor begin = RandomTensor(random, 70);
    const std::string state = absl::StrCat("x", twins.inputs);
    KILN_ASSERT_OK(twins.device->SetState(state, begin));
    KILN_ASSERT_OK(twins.cpu->SetState(state, begin));
    for (int run = 0; run < 6 && !testing::Test::HasFailure(); ++run) {
      for (size_t i = 0; i < twins.inputs; ++i) {
        const Tensor x = RandomTensor(random, 70);
        KILN_ASSERT_OK(twins.device->Bind(i, x));
        KILN_ASSERT_OK(twins.cpu->Bind(i, x));
      }
      twins.Run(absl::StrCat("run ", run));
    }
  }
}

// They stay on the device from run to run: copies are those of the other ports. What is read, or
// set anew between runs, is as on the CPU.
TEST(DeviceRuns, KeepStatesOnTheDevice) {
  Restart();
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  const std::vector<const char*> copies = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"};
  for (uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Twins twins;
    KILN_ASSERT_OK(twins.Make(seed, {.host_thunks = false, .state = true}, runtime));
    std::mt19937_64 random(seed);
    const std::string state = absl::StrCat("x", twins.inputs);
    const auto set = [&] {
      const Tensor begin = RandomTensor(random, 70);
      KILN_ASSERT_OK(twins.device->SetState(state, begin));
      KILN_ASSERT_OK(twins.cpu->SetState(state, begin));
    };
    const auto same = [&](const char* when) {
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor got, twins.device->State(state));
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor want, twins.cpu->State(state));
      EXPECT_EQ(got.device(), Device());
      EXPECT_TRUE(CompareBits(got, want).ok) << when;
    };
    set();
    for (size_t i = 0; i < twins.inputs; ++i) {
      const Tensor x = RandomTensor(random, 70);
      KILN_ASSERT_OK(twins.device->Bind(i, x));
      KILN_ASSERT_OK(twins.cpu->Bind(i, x));
    }
    for (int run = 0; run < 6; ++run) {
      if (run == 3) set();
      KILN_ASSERT_OK(twins.cpu->Run());
      const std::vector<uint64_t> calls =
          CallsOf(copies, [&] { KILN_ASSERT_OK(twins.device->Run()); });
      if (run > 0) {
        EXPECT_LE(calls[0], twins.inputs) << "run " << run;
        EXPECT_LE(calls[1], twins.outputs - 1) << "run " << run;
      }
      if (run % 2 == 0) same("read between runs");
    }
    same("at the end");
    for (size_t i = 0; i < twins.outputs; ++i)
      EXPECT_TRUE(CompareBits(*twins.device->Output(i), *twins.cpu->Output(i)).ok) << i;
    const MemoryReport memory = twins.model.memory();
    EXPECT_EQ(memory.states, 0);
    EXPECT_GT(memory.device_arenas, 70 * 4);
  }
  EXPECT_EQ(TakeFindings(), "");
}

// SetState of more than one chunk of pinned memory, with an error at its k-th call of the driver.
// The state is what it was, or the new value, or lost, and says so; whether calls went on beyond k.
bool SetsOrSaysSo(Twins& twins, const std::string& state, uint64_t k) {
  constexpr int kUnknown = 999;
  std::mt19937_64 random(k);
  const Tensor before = RandomTensor(random, 400'000), next = RandomTensor(random, 400'000);
  EXPECT_TRUE(twins.device->SetState(state, before).ok());
  const uint64_t calls = kiln_ptx_calls(nullptr);
  kiln_ptx_fail_at(k, kUnknown, 1);
  const absl::Status status = twins.device->SetState(state, next);
  kiln_ptx_fail_at(0, 0, 0);
  const bool reached = kiln_ptx_calls(nullptr) - calls >= k;
  const absl::StatusOr<Tensor> now = twins.device->State(state);
  if (status.ok()) {
    EXPECT_TRUE(now.ok() && CompareBits(*now, next).ok) << "call " << k;
  } else if (now.ok()) {
    EXPECT_TRUE(CompareBits(*now, before).ok) << "call " << k << " leaves a part of another value";
  } else {
    EXPECT_TRUE(absl::IsFailedPrecondition(now.status())) << now.status();
    EXPECT_FALSE(twins.device->Run().ok());
  }
  return reached;
}

TEST(DeviceRuns, AStateThatCouldNotBeSetIsNotHalfOfAnother) {
  Restart();
  Twins twins;
  KILN_ASSERT_OK(twins.Make(3, {.kernels = 2, .host_thunks = false, .state = true},
                            RuntimeOn(EmulatedDevice())));
  std::mt19937_64 random(3);
  const std::string state = absl::StrCat("x", twins.inputs);
  for (size_t i = 0; i < twins.inputs; ++i)
    KILN_ASSERT_OK(twins.device->Bind(i, RandomTensor(random, 400'000)));
  KILN_ASSERT_OK(twins.device->SetState(state, RandomTensor(random, 400'000)));
  KILN_ASSERT_OK(twins.device->Run());  // it moves there
  uint64_t k = 1;
  while (SetsOrSaysSo(twins, state, k) && !testing::Test::HasFailure()) ++k;
  EXPECT_GT(k, 4u);
}

const std::vector<const char*> kLaunching = {"cuLaunchKernel", "cuGraphInstantiateWithFlags",
                                             "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch",
                                             "cuStreamSynchronize"};

TEST(DeviceRuns, AreOneGraphFromTheSecondOn) {
  Restart();
  Twins twins;
  KILN_ASSERT_OK(twins.Make(3, {.kernels = 12, .host_thunks = false}, RuntimeOn(EmulatedDevice())));
  Binder binder(twins, 3);
  binder.Move();
  const auto run = [&] { twins.Run("a run"); };
  const std::vector<uint64_t> first = CallsOf(kLaunching, run);
  EXPECT_GE(first[0], 12u);
  EXPECT_EQ(first[1], 0u);
  EXPECT_EQ(first[3], 0u);
  using Calls = std::vector<uint64_t>;
  EXPECT_EQ(CallsOf(kLaunching, run), (Calls{0, 1, 0, 1, 1}));
  EXPECT_EQ(CallsOf(kLaunching, run), (Calls{0, 0, 0, 1, 1}));
  // Ports lie on the host: the device's addresses stay where they bind others.
  binder.Move();
  EXPECT_EQ(CallsOf(kLaunching, run), (Calls{0, 0, 0, 1, 1}));
}

// What stands between launches cuts them in two.
TEST(DeviceRuns, OfHostThunksHaveAGraphBetween) {
  Restart();
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  int cut = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Twins twins;
    KILN_ASSERT_OK(twins.Make(seed, {.kernels = 14}, runtime));
    Binder(twins, seed).Bind(true);
    for (int run = 0; run < 2; ++run) twins.Run("a run");
    const std::vector<uint64_t> third = CallsOf(kLaunching, [&] { twins.Run("a run"); });
    cut += third[3] > 1 ? 1 : 0;
    EXPECT_LE(third[4], 1 + third[0] + third[3]);
  }
  EXPECT_GT(cut, 3);
}

// The second run, which is to make a graph, with an error at its k-th call of the driver. Whether
// `function` was called and no graph was launched: then all must be well.
bool IsRefused(uint64_t k, const char* function) {
  constexpr int kNotSupported = 801;
  Restart();
  Twins twins;
  EXPECT_TRUE(twins.Make(5, {.host_thunks = false}, RuntimeOn(EmulatedDevice())).ok());
  Binder(twins, 5).Move();
  twins.Run("the first run");
  kiln_ptx_fail_at(k, kNotSupported, 1);
  const absl::Status status = twins.device->Run();
  kiln_ptx_fail_at(0, 0, 0);
  if (kiln_ptx_calls(function) == 0 || kiln_ptx_calls("cuGraphLaunch") > 0) return false;
  EXPECT_TRUE(status.ok()) << status;
  twins.Run("the third run");
  EXPECT_EQ(kiln_ptx_calls("cuGraphLaunch"), 0u);
  return true;
}

// The driver may make no graph: launches go on one by one.
TEST(DeviceRuns, GoOnWhereGraphsAreRefused) {
  for (const char* const function :
       {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"}) {
    SCOPED_TRACE(function);
    uint64_t k = 1;
    while (k < 100 && !IsRefused(k, function)) ++k;
    EXPECT_LT(k, 100u);
  }
}

uint64_t Live() {
  kiln_ptx_objects live;
  kiln_ptx_live(&live);
  return live.contexts + live.allocations + live.pinned + live.modules + live.streams +
         live.events + live.graphs + live.graph_execs;
}

// From nothing to the third run, where graphs are replayed.
absl::StatusOr<std::vector<Tensor>> ThreeRuns(const DeviceProgram& program, const Tensor& x) {
  KILN_ASSIGN_OR_RETURN(auto driver, cuda::Driver::Open(EmulatedDriver()));
  KILN_ASSIGN_OR_RETURN(auto gpu, cuda::Gpu::Open(std::move(driver), 0));
  KILN_ASSIGN_OR_RETURN(auto device, cuda::MakeCudaDevice(std::move(gpu), "cuda-emulated"));
  KILN_ASSIGN_OR_RETURN(Model model, program.MakeModel(RuntimeOn(device)));
  Context context = model.NewContext();
  for (size_t i = 0; i < program.inputs(); ++i) KILN_RETURN_IF_ERROR(context.Bind(i, x));
  for (int run = 0; run < 3; ++run) KILN_RETURN_IF_ERROR(context.Run());
  std::vector<Tensor> results;
  for (size_t i = 0; i < program.outputs(); ++i) {
    KILN_ASSIGN_OR_RETURN(results.emplace_back(), context.Output(i));
    results.back() = results.back().Clone();
  }
  return results;
}

TEST(DeviceRuns, AnErrorAtAnyCallIsAStatus) {
  const DeviceProgram program(6, {.kernels = 6});
  std::mt19937_64 random(6);
  const Tensor x = RandomTensor(random, 40);
  Restart();
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, ThreeRuns(program, x));
  const uint64_t calls = kiln_ptx_calls(nullptr);
  EXPECT_GT(kiln_ptx_calls("cuGraphLaunch"), 0u);
  ASSERT_EQ(Live(), 0u);
  int failed = 0;
  for (uint64_t k = 1; k <= calls; ++k) {
    for (const int result : {2, 801, 999, 700}) {
      SCOPED_TRACE(absl::StrCat("call ", k, " of ", calls, " answers ", result));
      Restart();
      kiln_ptx_fail_at(k, result, 1);
      const auto got = ThreeRuns(program, x);
      kiln_ptx_fail_at(0, 0, 0);
      failed += got.ok() ? 0 : 1;
      for (size_t i = 0; got.ok() && i < want.size(); ++i)
        ASSERT_TRUE(CompareBits((*got)[i], want[i]).ok);
      if (!got.ok()) {
        EXPECT_THAT(std::string(got.status().message()), testing::HasSubstr("cuda: "));
      }
    }
    Restart();
    KILN_ASSERT_OK(ThreeRuns(program, x).status());
    ASSERT_EQ(Live(), 0u) << "after an error at call " << k;
  }
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace kiln
