// SPDX-License-Identifier: Apache-2.0
// A host that forks while its threads run models on the emulated GPU: the child opens a device of
// its own, and its parent's goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/twins.h"

namespace kiln {
namespace {

constexpr unsigned kLongest = 60;  // seconds; a child takes some milliseconds

// A model on a device that is opened now, run against the CPU: 0, or what went wrong.
int RunsRight(uint64_t seed) {
  Twins twins;
  if (!twins.Make(seed, {.kernels = 4}, RuntimeOn(EmulatedDevice())).ok()) return 2;
  Binder binder(twins, seed);
  binder.Bind(true);
  twins.Run("in a child");
  return testing::Test::HasFailure() ? 3 : 0;
}

TEST(ForkedChild, OpensADeviceWhileItsParentsThreadsRunOnTheirs) {
  Restart();
  std::atomic<bool> done{false};
  std::atomic<int> runs{0};
  const auto work = [&](uint64_t seed) {
    const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
    Twins twins;
    ASSERT_TRUE(twins.Make(seed, {.kernels = 20}, runtime).ok());
    Binder binder(twins, seed);
    binder.Bind(true);
    while (!done) {
      twins.Run("in the parent");
      ++runs;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 3; ++seed) threads.emplace_back(work, seed);
  while (runs < 3 && !testing::Test::HasFailure()) std::this_thread::yield();
  const auto fork_often = [](uint64_t seed) {
    for (uint64_t k = 0; k < 12 && !testing::Test::HasFailure(); ++k)
      EXPECT_EQ(InChild([&] { return RunsRight(10 * seed + k); }, kLongest), 0);
  };
  std::thread other(fork_often, 2);
  fork_often(1);
  other.join();
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(TakeFindings(), "");
}

}  // namespace
}  // namespace kiln
