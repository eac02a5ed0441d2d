// SPDX-License-Identifier: Apache-2.0
// How a GPU is found (base/cuda_device.h), with the emulator in the place of the driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cuda_device.h"
#include "tests/cuda/emulated_gpu.h"

namespace kiln {
namespace {

std::optional<CudaDevice> FoundWith(int devices, int sm) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.devices = devices;
  config.sm[0] = sm;
  kiln_ptx_configure(&config);
  return FindCudaDevice(EmulatedDriver().c_str());
}

TEST(FoundDevice, SaysItsCapability) {
  for (const int sm : {80, 90, 100, 120}) {
    const std::optional<CudaDevice> found = FoundWith(1, sm);
    ASSERT_TRUE(found.has_value()) << sm;
    EXPECT_EQ(found->major * 10 + found->minor, sm);
    EXPECT_THAT(found->name, testing::Not(testing::IsEmpty()));
  }
}

TEST(FoundDevice, IsNoneWhereTheDriverHasNone) { EXPECT_FALSE(FoundWith(0, 80).has_value()); }

// Whatever call fails.
TEST(FoundDevice, IsNoneWhereTheDriverFails) {
  FoundWith(1, 80);
  const uint64_t calls = kiln_ptx_calls(nullptr);
  ASSERT_GE(calls, 5u);
  for (uint64_t k = 1; k <= calls; ++k) {
    kiln_ptx_config config;
    kiln_ptx_default_config(&config);
    kiln_ptx_configure(&config);
    kiln_ptx_fail_at(k, 999, 1);
    EXPECT_FALSE(FindCudaDevice(EmulatedDriver().c_str()).has_value()) << "call " << k;
  }
}

}  // namespace
}  // namespace kiln
