// SPDX-License-Identifier: Apache-2.0
// The forms of CUDA's templates on the emulated device: bits, and what the memory system is asked.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/text.h"
#include "tests/cuda/device_kernel_check.h"
#include "tests/cuda/emulated_gpu.h"

namespace kiln {
namespace {

constexpr char kRelu[] =
    "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nin   1 f32 [a] dense\npar  0 f32\n"
    "out  0 f32 [a] dense = max(add(mul(par0, in0[a]), in1[a]), 0)\n";
constexpr char kBias[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\nin   1 f32 [b] dense\n"
    "out  0 f32 [a, b] dense = add(in0[a, b], in1[b])\n";
constexpr char kRowSum[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [a] = reduce add over b (in0[a, b])\nout  0 f32 [a] dense = s0[a]\n";
constexpr char kSoftmax[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [a]    = reduce max over b (in0[a, b])\n"
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
    "s2 : f32 [a]    = reduce add over b (s1[a, b])\n"
    "out  0 f32 [a, b] dense = div(s1[a, b], s2[a])\n";
constexpr char kColumns[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [b] = reduce max over a (in0[a, b])\nout  0 f32 [b] dense = s0[b]\n";
constexpr char kEverything[] =
    "kernel v1 math 1\ndims a b c\nin   0 f32 [a, b, c] strided\n"
    "s0 : f32 [b] = reduce add over a c (in0[a, b, c])\n"
    "s1 : f32 []  = reduce max over a b c (in0[a, b, c])\n"
    "out  0 f32 [c, a, b] strided = add(sub(in0[a, b, c], s0[b]), s1[])\n"
    "out  1 f32 [b] dense = s0[b]\n";

class DeviceKernels : public testing::Test {
 protected:
  static RandomRun RunOf(const Kernel& kernel, const std::vector<int64_t>& extents) {
    return MakeRandomRunAt(kernel, 1, extents);
  }

  // All candidates at all extents, aligned and not.
  void CheckAll(const char* text, const std::vector<std::vector<int64_t>>& extents,
                std::vector<int64_t> at_most) {
    const Kernel kernel = *ParseKernel(text);
    for (const Schedule& schedule : DeviceCandidates(kernel, std::move(at_most))) {
      SCOPED_TRACE(schedule.ToString());
      DeviceKernelCheck check(gpu_, kernel, schedule);
      ASSERT_EQ(check.error(), "");
      for (const std::vector<int64_t>& at : extents) {
        SCOPED_TRACE(testing::PrintToString(at));
        EXPECT_EQ(check.Run(RunOf(kernel, at)), "");
        EXPECT_EQ(check.Run(RunOf(kernel, at), /*shifted=*/true), "");
      }
    }
  }

  // The counters of a run of the first candidate.
  kiln_ptx_counters CountersOf(const char* text, const std::vector<int64_t>& extents,
                               size_t candidate = 0) {
    const Kernel kernel = *ParseKernel(text);
    DeviceKernelCheck check(gpu_, kernel, DeviceCandidates(kernel, extents)[candidate]);
    EXPECT_EQ(check.error(), "");
    kiln_ptx_clear();
    kiln_ptx_counters counters{};
    EXPECT_EQ(check.Run(RunOf(kernel, extents), false, &counters), "");
    return counters;
  }

  const std::shared_ptr<cuda::Gpu> gpu_ = EmulatedGpu();
};

TEST_F(DeviceKernels, ElementwiseOfAnyLength) {
  CheckAll(kRelu, {{1}, {4}, {127}, {512}, {1001}}, {1 << 20});
  CheckAll(kBias, {{1, 1}, {3, 4}, {5, 33}, {7, 64}, {2, 1030}}, {1 << 20, 1 << 20});
}

TEST_F(DeviceKernels, RowsInRegisters) {
  const std::vector<std::vector<int64_t>> extents = {{1, 1},  {3, 4},    {5, 33},
                                                     {9, 64}, {17, 100}, {2, 128}};
  CheckAll(kRowSum, extents, {1 << 20, 128});
  CheckAll(kSoftmax, extents, {1 << 20, 128});
}

TEST_F(DeviceKernels, RowsOfSeveralBlocks) {
  CheckAll(kRowSum, {{2, 4095}, {1, 4096}, {2, 4097}, {1, 9000}}, {1 << 20, 1 << 20});
  CheckAll(kSoftmax, {{1, 4100}}, {1 << 20, 1 << 20});
}

TEST_F(DeviceKernels, ColumnsAndWhateverElse) {
  CheckAll(kColumns, {{1, 5}, {31, 3}, {33, 2}, {1025, 3}}, {1 << 20, 1 << 20});
  CheckAll(kEverything, {{2, 3, 5}, {3, 2, 70}, {1, 1, 1}}, {1 << 20, 1 << 20, 1 << 20});
}

// Whole warps of dense operands: 16 bytes a thread, each sector once.
TEST_F(DeviceKernels, StreamsAtFullWidth) {
  const kiln_ptx_counters counters = CountersOf(kRelu, {1 << 16});
  EXPECT_EQ(counters.load_requests, counters.full_warp_loads[4]);
  EXPECT_EQ(counters.load_sectors, counters.unique_load_sectors);
  EXPECT_EQ(counters.store_sectors, counters.unique_store_sectors);
  EXPECT_EQ(counters.local_accesses, 0u);
  EXPECT_LE(counters.thread_instructions, 12u << 16);
}

// A row is read once where it stays in registers; without shared memory and barriers.
TEST_F(DeviceKernels, SoftmaxReadsItsRowsOnce) {
  const kiln_ptx_counters counters = CountersOf(kSoftmax, {64, 512}, 1);
  EXPECT_EQ(counters.load_sectors, counters.unique_load_sectors);
  EXPECT_EQ(counters.load_requests, counters.full_warp_loads[4]);
  EXPECT_EQ(counters.barriers + counters.shared_requests + counters.local_accesses, 0u);
  EXPECT_LE(counters.thread_instructions, 45u * 64 * 512);
}

TEST_F(DeviceKernels, CodeOfAnotherLaunchIsRefused) {
  const Kernel kernel = *ParseKernel(kRelu);
  DeviceKernelCheck check(gpu_, kernel, DeviceCandidates(kernel)[0]);
  ASSERT_EQ(check.error(), "");
  const auto load = [&](const std::string& ptx, const std::string& recipe) {
    return cuda::DeviceKernel::Load(gpu_, ptx, recipe, cuda::DeviceKernel::Counts::Of(kernel))
        .status();
  };
  std::string other = check.recipe();
  other.replace(other.find("launch k0"), 9, "launch k9");
  EXPECT_TRUE(absl::IsDataLoss(load(check.ptx(), other))) << load(check.ptx(), other);
  EXPECT_TRUE(absl::IsDataLoss(load("no ptx", check.recipe())));
  EXPECT_TRUE(absl::IsDataLoss(load(check.ptx(), "kiln launch 2\n")));
  EXPECT_TRUE(absl::IsDataLoss(load(check.ptx(), check.recipe() + "arg param 7\n")));
}

}  // namespace
}  // namespace kiln
