// SPDX-License-Identifier: Apache-2.0
// Who looks at runs on a device: on_thunk, check_first_run, Profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/twins.h"

namespace kiln {
namespace {

// Inputs and outputs of kernels, by the number in their thunks' names.
using Seen = std::vector<std::vector<Tensor>>;

ThunkFn Watch(Seen& seen) {
  return [&seen](const ThunkView& view) {
    if (std::string(view.kind) != "kernel") return absl::OkStatus();
    std::vector<Tensor>& made = seen.emplace_back();
    for (const auto* operands : {&view.inputs, &view.outputs}) {
      for (const Tensor& operand : *operands) {
        EXPECT_EQ(operand.device(), Device());
        made.push_back(operand.Clone());
      }
    }
    return absl::OkStatus();
  };
}

// Every launch's operands are those of the same launch on the CPU.
TEST(WatchedRuns, ShowWhatLiesOnTheDevice) {
  Restart();
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  for (uint64_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Seen seen[2];
    std::vector<Context> contexts;
    std::mt19937_64 random(seed);
    const Tensor x = RandomTensor(random, 37);
    for (size_t k = 0; k < 2; ++k) {
      DeviceProgramOptions options;
      options.on_device = k == 0;
      const DeviceProgram program(seed, options);
      RunOptions run;
      run.temporaries = Temporaries::kSeparate;
      run.on_thunk = Watch(seen[k]);
      KILN_ASSERT_OK_AND_ASSIGN(Model model,
                                program.MakeModel(k == 0 ? runtime : RuntimeOn(nullptr), run));
      contexts.push_back(model.NewContext());
      for (size_t i = 0; i < program.inputs(); ++i) KILN_ASSERT_OK(contexts[k].Bind(i, x));
      KILN_ASSERT_OK(contexts[k].Run());
    }
    ASSERT_EQ(seen[0].size(), seen[1].size());
    for (size_t i = 0; i < seen[0].size(); ++i) {
      ASSERT_EQ(seen[0][i].size(), seen[1][i].size());
      for (size_t k = 0; k < seen[0][i].size(); ++k)
        EXPECT_TRUE(CompareBits(seen[0][i][k], seen[1][i][k]).ok) << "kernel " << i;
    }
  }
  EXPECT_EQ(TakeFindings(), "");
}

TEST(WatchedRuns, EndWhereTheWatchSaysSo) {
  Restart();
  const DeviceProgram program(4, {});
  RunOptions run;
  run.on_thunk = [](const ThunkView& view) {
    return std::string(view.kind) == "kernel" ? absl::AbortedError("enough") : absl::OkStatus();
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, program.MakeModel(RuntimeOn(EmulatedDevice()), run));
  Context context = model.NewContext();
  std::mt19937_64 random(4);
  for (size_t i = 0; i < program.inputs(); ++i)
    KILN_ASSERT_OK(context.Bind(i, RandomTensor(random, 8)));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kAborted));
}

TEST(WatchedRuns, AreCheckedBeforeTheFirst) {
  Restart();
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Twins twins;
    RunOptions run;
    run.check_first_run = true;
    KILN_ASSERT_OK(twins.Make(seed, {}, runtime, run));
    Binder(twins, seed).Bind(true);
    for (int k = 0; k < 3; ++k) twins.Run("a run");
  }
  EXPECT_EQ(TakeFindings(), "");
}

// A kernel of the device that writes one element beyond its output.
TEST(WatchedRuns, FindALaunchThatWritesBeyondItsOutput) {
  Restart();
  DeviceProgram program(2, {.kernels = 6, .host_thunks = false});
  program.WriteBeyond();
  RunOptions run;
  run.check_first_run = true;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, program.MakeModel(RuntimeOn(EmulatedDevice()), run));
  Context context = model.NewContext();
  std::mt19937_64 random(4);
  for (size_t i = 0; i < program.inputs(); ++i)
    KILN_ASSERT_OK(context.Bind(i, RandomTensor(random, 8)));
  const absl::Status status = context.Run();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("writes beyond its operands"));
}

TEST(WatchedRuns, ProfileByTheClockOfTheDevice) {
  Restart();
  Twins twins;
  KILN_ASSERT_OK(twins.Make(9, {.kernels = 12}, RuntimeOn(EmulatedDevice())));
  Binder(twins, 9).Bind(true);
  for (int k = 0; k < 3; ++k) twins.Run("a run");
  size_t kernels = 0;
  const auto profile = [&] {
    const absl::StatusOr<std::vector<ThunkTime>> times = twins.device->Profile();
    KILN_ASSERT_OK(times.status());
    EXPECT_GT(times->size(), 12u);
    double sum = 0;
    for (const ThunkTime& time : *times) {
      if (time.kind != "kernel") continue;
      sum += time.ms;
      ++kernels;
    }
    EXPECT_GT(sum, 0);
    EXPECT_EQ(kernels, 15u);
  };
  const std::vector<uint64_t> calls =
      CallsOf({"cuEventElapsedTime", "cuGraphLaunch", "cuEventSynchronize"}, profile);
  EXPECT_GE(calls[0], kernels - 4);  // 4 have no code for the device; the others by its events
  EXPECT_EQ(calls[1], 0u);
  EXPECT_EQ(calls[2], 0u);
  twins.Run("a run after it");
}

}  // namespace
}  // namespace kiln
