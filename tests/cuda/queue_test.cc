// SPDX-License-Identifier: Apache-2.0
// Copies of a queue through pinned memory, and the application's streams and contexts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/cuda/launch_queue.h"
#include "ptx_emulator/control.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/mock_driver.h"

namespace kiln::cuda {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

std::vector<uint8_t> RandomBytes(std::mt19937_64& random, size_t bytes) {
  std::vector<uint8_t> made(bytes);
  for (uint8_t& byte : made) byte = static_cast<uint8_t>(random());
  return made;
}

// Copies of all sizes there and back, host memory changed as soon as that is allowed.
TEST(LaunchQueueTest, CopiesThroughPinnedMemory) {
  const std::shared_ptr<Gpu> gpu = EmulatedGpu();
  auto queue = *LaunchQueue::Make(gpu);
  auto memory = *DeviceMemory::Allocate(gpu, 24 * kMiB);
  std::mt19937_64 random(7);
  for (int round = 0; round < 6; ++round) {
    KILN_ASSERT_OK(queue->Begin(nullptr, round % 2 == 0));
    std::vector<std::vector<uint8_t>> wanted, got;
    size_t at = 0;
    for (const size_t bytes : {size_t{1}, size_t{0}, size_t{4097}, kMiB, 5 * kMiB + 3, size_t{64},
                               random() % (9 * kMiB)}) {
      std::vector<uint8_t> source = RandomBytes(random, bytes);
      wanted.push_back(source);
      KILN_ASSERT_OK(queue->CopyIn(AsPointer(memory->address() + at), source.data(), bytes));
      std::fill(source.begin(), source.end(), 0);
      at += bytes;
    }
    at = 0;
    for (const std::vector<uint8_t>& one : wanted) {
      got.emplace_back(one.size());
      KILN_ASSERT_OK(
          queue->CopyOut(got.back().data(), AsPointer(memory->address() + at), one.size()));
      at += one.size();
    }
    KILN_ASSERT_OK(queue->End());
    ASSERT_EQ(got, wanted) << "round " << round;
  }
  EXPECT_EQ(TakeFindings(), "");
}

TEST(LaunchQueueTest, OutputsWaitOnceAtTheEnd) {
  auto gpu = *Gpu::Open(MockDriver(), 0);
  auto queue = *LaunchQueue::Make(gpu);
  auto memory = *DeviceMemory::Allocate(gpu, kMiB);
  std::vector<uint8_t> host(1000);
  const auto run = [&] {
    KILN_ASSERT_OK(queue->Begin(nullptr, true));
    for (size_t i = 0; i < 10; ++i)
      KILN_ASSERT_OK(
          queue->CopyOut(host.data() + 100 * i, AsPointer(memory->address() + 100 * i), 100));
    KILN_ASSERT_OK(queue->End());
  };
  run();  // pins memory
  TakeMockCalls();
  run();
  using testing::Pair;
  EXPECT_THAT(TakeMockCalls(), testing::UnorderedElementsAre(Pair("cuCtxPushCurrent_v2", 1),
                                                             Pair("cuCtxPopCurrent_v2", 1),
                                                             Pair("cuMemcpyDtoHAsync_v2", 10),
                                                             Pair("cuStreamSynchronize", 1)));
}

// What was copied out and is copied in again has arrived before.
TEST(LaunchQueueTest, CopiesInWhatIsCopiedOut) {
  const std::shared_ptr<Gpu> gpu = EmulatedGpu();
  auto queue = *LaunchQueue::Make(gpu);
  auto memory = *DeviceMemory::Allocate(gpu, 512);
  std::mt19937_64 random(8);
  const std::vector<uint8_t> source = RandomBytes(random, 256);
  std::vector<uint8_t> host(256), back(256);
  KILN_ASSERT_OK(queue->Begin(nullptr, false));
  KILN_ASSERT_OK(queue->CopyIn(AsPointer(memory->address()), source.data(), 256));
  KILN_ASSERT_OK(queue->CopyOut(host.data(), AsPointer(memory->address()), 256));
  KILN_ASSERT_OK(queue->CopyIn(AsPointer(memory->address() + 256), host.data() + 10, 100));
  KILN_ASSERT_OK(queue->CopyOut(back.data(), AsPointer(memory->address() + 256), 100));
  KILN_ASSERT_OK(queue->End());
  EXPECT_EQ(host, source);
  EXPECT_EQ(std::memcmp(back.data(), source.data() + 10, 100), 0);
}

// The driver copies where it pins no memory.
TEST(LaunchQueueTest, CopiesWithoutPinnedMemory) {
  constexpr int kNoMemory = 2;
  const std::shared_ptr<Gpu> gpu = EmulatedGpu();
  auto queue = *LaunchQueue::Make(gpu);
  auto memory = *DeviceMemory::Allocate(gpu, 3 * kMiB);
  std::mt19937_64 random(9);
  const std::vector<uint8_t> source = RandomBytes(random, 3 * kMiB);
  std::vector<uint8_t> back(3 * kMiB);
  KILN_ASSERT_OK(queue->Begin(nullptr, true));
  kiln_ptx_fail_at(2, kNoMemory, 1);  // the context is pushed, then cuMemHostAlloc
  KILN_ASSERT_OK(queue->CopyIn(AsPointer(memory->address()), source.data(), source.size()));
  KILN_ASSERT_OK(queue->CopyOut(back.data(), AsPointer(memory->address()), back.size()));
  KILN_ASSERT_OK(queue->End());
  EXPECT_EQ(back, source);
  kiln_ptx_objects live;
  kiln_ptx_live(&live);
  EXPECT_EQ(live.pinned, 0u);
}

// The device's context is current during a run, and then what was current before.
TEST(LaunchQueueTest, TheCallersContextStays) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.devices = 2;
  const std::shared_ptr<Gpu> gpu = EmulatedGpu(&config);
  const Driver& driver = gpu->driver();
  auto queue = *LaunchQueue::Make(gpu);
  kiln::cuda::Context own = nullptr, now = nullptr;
  ASSERT_EQ(driver.cuDevicePrimaryCtxRetain(&own, 1), kSuccess);
  ASSERT_EQ(driver.cuCtxPushCurrent_v2(own), kSuccess);
  uint64_t value = 1;
  for (const bool fails : {false, true}) {
    KILN_ASSERT_OK(queue->Begin(nullptr, true));
    KILN_ASSERT_OK(queue->Arena(64).status());
    KILN_ASSERT_OK(queue->CopyIn(*queue->Arena(64), &value, sizeof value));
    if (fails) {
      queue->Abandon();
    } else {
      KILN_ASSERT_OK(queue->End());
    }
    ASSERT_EQ(driver.cuCtxGetCurrent(&now), kSuccess);
    EXPECT_EQ(now, own);
  }
  EXPECT_EQ(driver.cuCtxPopCurrent_v2(&now), kSuccess);
  EXPECT_EQ(driver.cuDevicePrimaryCtxRelease_v2(1), kSuccess);
}

// Work is between what the application has put into its stream before and after, and nobody waits;
// the emulator finds a race where it is not.
TEST(LaunchQueueTest, RunsInAStreamOfTheApplication) {
  const std::shared_ptr<Gpu> gpu = EmulatedGpu();
  const Driver& driver = gpu->driver();
  auto queue = *LaunchQueue::Make(gpu);
  auto stream = *DeviceStream::Make(gpu), other = *DeviceStream::Make(gpu);
  auto memory = *DeviceMemory::Allocate(gpu, 256);
  auto pinned = *PinnedMemory::Allocate(gpu, 128);
  const auto check = [&](bool in_stream) {
    KILN_ASSERT_OK(gpu->Call("memset", [&] {
      return driver.cuMemsetD8Async(memory->address(), 5, 128, stream->handle());
    }));
    KILN_ASSERT_OK(queue->Begin(in_stream ? stream->handle() : nullptr, false));
    KILN_ASSERT_OK(
        queue->CopyOver(AsPointer(memory->address() + 128), AsPointer(memory->address()), 128));
    KILN_ASSERT_OK(queue->End());
    KILN_ASSERT_OK(gpu->CopyOut(pinned->data(), memory->address() + 128, 128, stream->handle()));
  };
  const uint64_t waits = kiln_ptx_calls("cuStreamSynchronize");
  check(true);
  EXPECT_EQ(TakeFindings(), "");
  EXPECT_EQ(kiln_ptx_calls("cuStreamSynchronize"), waits);
  KILN_ASSERT_OK(stream->Wait());
  EXPECT_EQ(static_cast<uint8_t*>(pinned->data())[127], 5);
  check(false);
  EXPECT_THAT(TakeFindings(), testing::HasSubstr("unordered stream"));
  KILN_ASSERT_OK(stream->Wait());
  // A later run in another stream comes after this one's.
  KILN_ASSERT_OK(queue->Begin(stream->handle(), false));
  KILN_ASSERT_OK(
      queue->CopyOver(AsPointer(memory->address() + 128), AsPointer(memory->address()), 128));
  KILN_ASSERT_OK(queue->End());
  KILN_ASSERT_OK(queue->Begin(other->handle(), false));
  KILN_ASSERT_OK(
      queue->CopyOver(AsPointer(memory->address()), AsPointer(memory->address() + 128), 128));
  KILN_ASSERT_OK(queue->End());
  KILN_ASSERT_OK(queue->Wait());
  EXPECT_EQ(TakeFindings(), "");
}

TEST(LaunchQueueTest, RefusesAStreamOfAnotherDevice) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.devices = 2;
  const std::shared_ptr<Gpu> gpu = EmulatedGpu(&config);
  auto second = *Gpu::Open(*Driver::Open(EmulatedDriver()), 1);
  auto queue = *LaunchQueue::Make(gpu);
  auto stream = *DeviceStream::Make(second);
  EXPECT_THAT(queue->Begin(stream->handle(), false), StatusIs(absl::StatusCode::kInvalidArgument));
  KILN_ASSERT_OK(queue->Begin(nullptr, false));
  KILN_EXPECT_OK(queue->End());
}

TEST(LaunchQueueTest, RefusesWhatIsNoStream) {
  const std::shared_ptr<Gpu> gpu = EmulatedGpu();
  auto queue = *LaunchQueue::Make(gpu);
  int none = 0;
  EXPECT_THAT(queue->Begin(&none, false), StatusIs(absl::StatusCode::kInvalidArgument));
  KILN_ASSERT_OK(queue->Begin(nullptr, false));
  KILN_EXPECT_OK(queue->End());
}

TEST(LaunchQueueTest, MarksPointsOfTime) {
  const std::shared_ptr<Gpu> gpu = EmulatedGpu();
  auto queue = *LaunchQueue::Make(gpu);
  KILN_ASSERT_OK(queue->Begin(nullptr, false));
  KILN_ASSERT_OK(queue->Mark(0));
  KILN_ASSERT_OK(queue->Mark(1));
  KILN_ASSERT_OK(queue->End());
  KILN_ASSERT_OK_AND_ASSIGN(const double ms, queue->MillisecondsBetween(0, 1));
  EXPECT_GE(ms, 0);
}

}  // namespace
}  // namespace kiln::cuda
