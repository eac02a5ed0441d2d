// SPDX-License-Identifier: Apache-2.0
// What the host's part of a run on a device costs, with a driver that does nothing: how often the
// driver is called, and the time for each launch, which is printed.
//   KILN_LAUNCH_ROUNDS=2000 build/ci/tests/bin/cuda_launch_cost_test
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_device.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/mock_driver.h"

namespace kiln {
namespace {

constexpr int kKernels = 256;

std::shared_ptr<Runtime> MockRuntime() {
  auto gpu = cuda::Gpu::Open(MockDriver(), 0);
  EXPECT_TRUE(gpu.ok()) << gpu.status();
  auto device = cuda::MakeCudaDevice(*std::move(gpu), "cuda:0");
  EXPECT_TRUE(device.ok()) << device.status();
  return RuntimeOn(*device);
}

// A caller of a chain of kernels that has run twice. `graphs`: the driver has made one of them.
class Caller {
 public:
  explicit Caller(bool graphs) : runtime_(MockRuntime()) {
    const DeviceProgram program(1, {.kernels = kKernels, .host_thunks = false});
    absl::StatusOr<Model> model = program.MakeModel(runtime_);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    context_ = std::make_unique<Context>(model_.NewContext());
    for (size_t i = 0; i < program.inputs(); ++i)
      EXPECT_TRUE(context_->Bind(i, Tensor::Allocate(DType::kF32, {64})).ok());
    TakeMockCalls();
    Run();
    launches_ = static_cast<int>(TakeMockCalls()["cuLaunchKernel"]);
    RefuseMockGraphs(!graphs);
    Run();
    RefuseMockGraphs(false);
    TakeMockCalls();
  }
  void Run() { EXPECT_TRUE(context_->Run().ok()); }
  // Of one run, in microseconds, for each launch.
  double Time() {
    const auto start = std::chrono::steady_clock::now();
    Run();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    return time.count() / launches_;
  }
  int launches() const { return launches_; }

 private:
  const std::shared_ptr<Runtime> runtime_;
  Model model_;
  std::unique_ptr<Context> context_;
  int launches_ = 0;
};

TEST(LaunchCost, IsTheCallsThatAreNeeded) {
  using testing::Pair;
  Caller plain(false), graph(true);
  ASSERT_GE(plain.launches(), kKernels);
  TakeMockCalls();
  plain.Run();
  std::map<std::string, int64_t> calls = TakeMockCalls();
  EXPECT_EQ(calls["cuLaunchKernel"], plain.launches());
  graph.Run();
  const std::map<std::string, int64_t> replay = TakeMockCalls();
  calls.erase("cuLaunchKernel");
  calls["cuGraphLaunch"] = 1;
  EXPECT_THAT(replay, testing::ContainerEq(calls));
  // The context is made current once, each port is copied once, and nobody waits but at the end.
  EXPECT_THAT(replay,
              testing::IsSupersetOf({Pair("cuCtxPushCurrent_v2", 1), Pair("cuCtxPopCurrent_v2", 1),
                                     Pair("cuStreamSynchronize", 1)}));
  EXPECT_THAT(replay, testing::Not(testing::Contains(testing::Key("cuEventSynchronize"))));
  EXPECT_LE(replay.size(), 6u);
}

TEST(LaunchCost, IsPrinted) {
  Caller plain(false), graph(true);
  const int64_t rounds = FromEnvironment("KILN_LAUNCH_ROUNDS", 200);
  std::vector<double> times[2];
  for (int64_t i = 0; i < rounds; ++i) {  // forth and back
    const bool first = i % 2 == 0;
    times[first ? 0 : 1].push_back((first ? plain : graph).Time());
    times[first ? 1 : 0].push_back((first ? graph : plain).Time());
  }
  for (std::vector<double>& each : times) std::sort(each.begin(), each.end());
  std::printf(
      "host time per launch, %d launches, %lld rounds: least %.3f us (median %.3f); "
      "as a graph least %.4f us (median %.4f)\n",
      plain.launches(), static_cast<long long>(rounds), times[0].front(),
      times[0][times[0].size() / 2], times[1].front(), times[1][times[1].size() / 2]);
}

}  // namespace
}  // namespace kiln
