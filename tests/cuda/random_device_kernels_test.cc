// SPDX-License-Identifier: Apache-2.0
// Random kernels on the emulated device, with candidates of each template, against EvalKernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernel/text.h"
#include "tests/base/environment.h"
#include "tests/cuda/device_kernel_check.h"
#include "tests/cuda/emulated_gpu.h"

namespace kiln {
namespace {

// Of each template one candidate, another one for each seed.
std::vector<Schedule> OneOfEach(const Kernel& kernel, uint64_t seed,
                                const std::vector<int64_t>& at_most) {
  std::vector<Schedule> chosen;
  const std::vector<Schedule> all = DeviceCandidates(kernel, at_most);
  for (size_t first = 0; first < all.size();) {
    size_t end = first;
    while (end < all.size() && std::string(all[end].name()) == all[first].name()) ++end;
    chosen.push_back(all[first + seed % (end - first)]);
    first = end;
  }
  return chosen;
}

TEST(RandomDeviceKernels, HaveTheBitsOfTheText) {
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t count = FromEnvironment("KILN_RANDOM_SEEDS", 12);
  const std::shared_ptr<cuda::Gpu> gpu = EmulatedGpu();
  ASSERT_NE(gpu, nullptr);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Kernel kernel = RandomKernel(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    constexpr int64_t kMost[] = {1024, 1 << 20};
    const std::vector<int64_t> at_most(kernel.dims.size(), kMost[seed % 2]);
    for (const Schedule& schedule : OneOfEach(kernel, seed, at_most)) {
      SCOPED_TRACE(schedule.ToString());
      DeviceKernelCheck check(gpu, kernel, schedule);
      ASSERT_EQ(check.error(), "");
      for (uint64_t round = 0; round < 3; ++round) {
        RandomRun run = MakeRandomRun(kernel, seed * 16 + round, 20000);
        const bool beyond = std::any_of(run.extents.begin(), run.extents.end(),
                                        [&](int64_t extent) { return extent > at_most[0]; });
        if (beyond || AnyEmpty(run.outputs) || AnyEmpty(run.inputs)) continue;
        ASSERT_EQ(check.Run(run, round == 1), "") << "round " << round << "\n" << check.recipe();
      }
    }
  }
}

}  // namespace
}  // namespace kiln
