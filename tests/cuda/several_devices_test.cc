// SPDX-License-Identifier: Apache-2.0
// Models on several devices at once, and what is left when one is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "exec/cuda/cuda_device.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/twins.h"

namespace kiln {
namespace {

TEST(SeveralDevices, RunAtOnce) {
  Restart(2);
  Twins twins[2];
  for (int k = 0; k < 2; ++k) {
    KILN_ASSERT_OK(twins[k].Make(11, {}, RuntimeOn(EmulatedDevice(k))));
    Binder(twins[k], static_cast<uint64_t>(20 + k)).Bind(true);
  }
  const auto run = [&](int k) {
    for (int i = 0; i < 10; ++i) twins[k].Run(absl::StrCat("device ", k, ", run ", i));
  };
  std::thread second([&] { run(1); });  // NOLINT: a test's
  run(0);
  second.join();
  EXPECT_EQ(TakeFindings(), "");
}

TEST(SeveralDevices, AreLostOneByOne) {
  Restart(2);
  const std::shared_ptr<ComputeDevice> devices[] = {EmulatedDevice(0), EmulatedDevice(1)};
  EXPECT_EQ(devices[1]->ordinal(), 1);
  Twins twins[2];
  for (int k = 0; k < 2; ++k) {
    KILN_ASSERT_OK(twins[k].Make(12, {}, RuntimeOn(devices[k])));
    Binder(twins[k], static_cast<uint64_t>(30 + k)).Bind(true);
    for (int i = 0; i < 2; ++i) twins[k].Run("before");
  }
  kiln_ptx_fail_at(3, 700, 1);
  EXPECT_THAT(twins[1].device->Run(), StatusIs(absl::StatusCode::kUnavailable));
  kiln_ptx_fail_at(0, 0, 0);
  EXPECT_THAT(twins[1].device->Run(), StatusIs(absl::StatusCode::kUnavailable));
  for (int i = 0; i < 3; ++i) twins[0].Run("after");
}

TEST(SeveralDevices, HaveNames) {
  Restart(2);
  for (const auto& [name, ordinal] :
       {std::pair("cuda-emulated", 0), std::pair("cuda-emulated:1", 1)}) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto device, cuda::OpenCudaDevice(name));
    EXPECT_EQ(device->name(), name);
    EXPECT_EQ(device->ordinal(), ordinal);
  }
  EXPECT_THAT(cuda::OpenCudaDevice("cuda-emulated:2").status(),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(cuda::OpenCudaDevice("cuda-emulated2").status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace kiln
