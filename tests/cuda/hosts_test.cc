// SPDX-License-Identifier: Apache-2.0
// Hosts that end, fork, close descriptors or lose the device while their threads run models on the
// emulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/twins.h"

namespace kiln {
namespace {

constexpr unsigned kLongest = 60;  // seconds; a child takes some milliseconds

// Threads that run models on one device, again and again, until they are stopped. The first error
// of each is kept.
class Runners {
 public:
  explicit Runners(const std::shared_ptr<Runtime>& runtime) {
    for (size_t k = 0; k < kThreads; ++k) {
      threads_.emplace_back([this, runtime, k] {
        Twins twins;
        if (!twins.Make(k + 1, {.kernels = 12, .host_thunks = k == 1}, runtime).ok()) return;
        Binder binder(twins, k + 1);
        binder.Bind(true);
        while (!done_) {
          errors_[k].Update(twins.device->Run());
          ++runs_[k];
        }
      });
    }
    WaitForRuns(1);
  }
  // Until each has run so often again.
  void WaitForRuns(int more) const {
    for (const std::atomic<int>& runs : runs_) {
      const int before = runs;
      while (runs < before + more) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::vector<absl::Status> Stop() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
    return errors_;
  }
  void Abandon() {
    for (std::thread& thread : threads_) thread.detach();
  }

 private:
  static constexpr size_t kThreads = 3;
  std::atomic<bool> done_{false};
  std::array<std::atomic<int>, kThreads> runs_{};
  std::vector<absl::Status> errors_{kThreads};
  std::vector<std::thread> threads_;
};

TEST(DeviceHosts, EndWhileModelsRun) {
  for (int k = 0; k < 8; ++k) {
    EXPECT_EQ(InChild(
                  [k]() -> int {
                    Restart();
                    auto& runners = *new Runners(RuntimeOn(EmulatedDevice()));
                    std::this_thread::sleep_for(std::chrono::milliseconds(k));
                    runners.Abandon();
                    exit(7);  // with what runs when a process ends
                  },
                  kLongest),
              7);
  }
}

// A child that ends as a program does, with its parent's objects.
TEST(DeviceHosts, ChildrenEndWithTheirParentsObjects) {
  Restart();
  auto runtime = RuntimeOn(EmulatedDevice());
  Runners runners(runtime);
  for (int k = 0; k < 8; ++k) EXPECT_EQ(InChild([]() -> int { exit(7); }, kLongest), 7);
  // What the child gives up is not the driver's there.
  EXPECT_EQ(InChild(
                [&]() -> int {
                  runtime = nullptr;
                  return 7;
                },
                kLongest),
            7);
  for (const absl::Status& error : runners.Stop()) EXPECT_THAT(error, IsOk());
  EXPECT_EQ(TakeFindings(), "");
}

TEST(DeviceHosts, CloseDescriptorsWhileModelsRun) {
  EXPECT_EQ(InChild(
                []() -> int {
                  Restart();
                  Runners runners(RuntimeOn(EmulatedDevice()));
                  for (int fd = 3; fd < 200; ++fd) close(fd);
                  if (chdir("/") != 0) return 2;
                  runners.WaitForRuns(5);
                  for (const absl::Status& error : runners.Stop())
                    if (!error.ok()) return 3;
                  Runners others(RuntimeOn(EmulatedDevice()));
                  for (const absl::Status& error : others.Stop())
                    if (!error.ok()) return 4;
                  return 0;
                },
                kLongest),
            0);
}

// Whoever meets it, all of them get an error from then on; another device goes on. One call is not
// looked at: that which takes the context from its thread.
TEST(DeviceHosts, LoseADeviceUnderSeveralThreads) {
  constexpr int kIllegalAddress = 700;
  int lost = 0;
  for (uint64_t at = 1; at < 40; at += 6) {
    Restart(/*devices=*/2);
    Runners runners(RuntimeOn(EmulatedDevice(0)));
    kiln_ptx_fail_at(at, kIllegalAddress, 1);
    runners.WaitForRuns(5);
    const std::vector<absl::Status> errors = runners.Stop();
    for (const absl::Status& error : errors)
      EXPECT_EQ(error.code(),
                errors[0].ok() ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable)
          << at << ": " << error;
    lost += errors[0].ok() ? 0 : 1;
    Runners others(RuntimeOn(EmulatedDevice(1)));
    for (const absl::Status& error : others.Stop()) EXPECT_THAT(error, IsOk()) << at;
  }
  EXPECT_GT(lost, 3);
}

}  // namespace
}  // namespace kiln
