// SPDX-License-Identifier: Apache-2.0
// The forms of CUDA's templates on the emulated device: bits, and what the memory system is asked.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "kernel/text.h"
#include "schedule/cuda/templates.h"
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
constexpr char kHalves[] =
    "kernel v1 math 1\ndims a b\nin   0 bf16 [a, b] dense\nin   1 bf16 [a, b] dense\n"
    "out  0 bf16 [a, b] dense = add(in0[a, b], in1[a, b])\n";
constexpr char kNarrow[] =
    "kernel v1 math 1\ndims a b\nin   0 f16 [a, b] dense\nin   1 u8 [b] dense\n"
    "out  0 f16 [a, b] dense = add(in0[a, b], cast<f32>(in1[b]))\n"
    "out  1 bool [a, b] dense = lt(in0[a, b], 1)\n";
constexpr char kBytes[] =
    "kernel v1 math 1\ndims a b\nin   0 i8 [a, b] dense\nin   1 i8 [a, b] dense\n"
    "in   2 f32 [a, b] dense\nin   3 i8 [b] dense\n"
    "out  0 bool [a, b] dense = lt(in0[a, b], in1[a, b])\n"
    "out  1 bool [a, b] dense = le(in1[a, b], in3[b])\n"
    "out  2 bool [a, b] dense = lt(cast<i32>(in0[a, b]), cast<i32>(in3[b]))\n"
    "out  3 f32 [a, b] dense = select(lt(in1[a, b], in0[a, b]), in2[a, b], 1)\n";
constexpr char kTransposed[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [b, a] dense\nin   1 f32 [a, b] dense\n"
    "out  0 f32 [a, b] dense = add(in0[b, a], in1[a, b])\n";
constexpr char kTransposedPlanes[] =
    "kernel v1 math 1\ndims a b c d\nin   0 bf16 [a, d, b, c] dense\n"
    "in   1 f32 [c, d, b] dense\nin   2 f32 [d] dense\n"
    "out  0 f32 [a, b, c, d] dense = mul(add(in0[a, d, b, c], in1[c, d, b]), in2[d])\n";
constexpr char kRowSum[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [a] = reduce add over b (in0[a, b])\nout  0 f32 [a] dense = s0[a]\n";
constexpr char kWholeSum[] =
    "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\n"
    "s0 : f32 [] = reduce add over a (in0[a])\n"
    "s1 : f32 [] = add(s0[], 1)\n"
    "out  0 f32 [] dense = s1[]\nout  1 f32 [a] dense = mul(in0[a], s1[])\n";
constexpr char kSoftmax[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [a]    = reduce max over b (in0[a, b])\n"
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
    "s2 : f32 [a]    = reduce add over b (s1[a, b])\n"
    "out  0 f32 [a, b] dense = div(s1[a, b], s2[a])\n";
constexpr char kExponentials[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [a]    = reduce max over b (in0[a, b])\n"
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
    "s2 : f32 [a]    = reduce add over b (s1[a, b])\n"
    "out  0 f32 [a] dense = div(1, s2[a])\nout  1 f32 [a, b] dense = s1[a, b]\n";
constexpr char kColumns[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [b] = reduce max over a (in0[a, b])\nout  0 f32 [b] dense = s0[b]\n";
constexpr char kColumnSoftmax[] =
    "kernel v1 math 1\ndims a b c\nin   0 f32 [a, b, c] dense\nin   1 f32 [c] dense\n"
    "s0 : f32 [a, c]    = reduce max over b (in0[a, b, c])\n"
    "s1 : f32 [a, b, c] = exp(sub(in0[a, b, c], s0[a, c]))\n"
    "s2 : f32 [a, c]    = reduce add over b (s1[a, b, c])\n"
    "s3 : f32 [a, c]    = div(in1[c], s2[a, c])\n"
    "out  0 f32 [a, b, c] dense = mul(s1[a, b, c], s3[a, c])\n";
constexpr char kLargest[] = "out  1 f32 [a, c] dense = s0[a, c]\n";
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

  // All candidates, or each n-th, at all extents, aligned and not.
  void CheckAll(const std::string& text, const std::vector<std::vector<int64_t>>& extents,
                std::vector<int64_t> at_most, size_t each = 1) {
    const Kernel kernel = *ParseKernel(text);
    const std::vector<Schedule> all = DeviceCandidates(kernel, std::move(at_most));
    for (size_t k = 0; k < all.size(); k += each) {
      const Schedule& schedule = all[k];
      SCOPED_TRACE(schedule.ToString());
      DeviceKernelCheck check(gpu_, kernel, schedule);
      ASSERT_EQ(check.error(), "");
      for (const std::vector<int64_t>& at : extents) {
        SCOPED_TRACE(testing::PrintToString(at));
        EXPECT_EQ(check.Run(RunOf(kernel, at)), "");
        EXPECT_EQ(check.Run(RunOf(kernel, at), /*shifted=*/~0U), "");
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
    EXPECT_EQ(check.Run(RunOf(kernel, extents), 0, &counters), "");
    return counters;
  }

  const std::shared_ptr<cuda::Gpu> gpu_ = EmulatedGpu();
};

TEST_F(DeviceKernels, ElementwiseOfAnyLength) {
  CheckAll(kRelu, {{1}, {4}, {127}, {512}, {1001}}, {1 << 20});
  CheckAll(kBias, {{1, 1}, {3, 4}, {5, 33}, {7, 64}, {2, 1030}}, {1 << 20, 1 << 20}, 5);
  CheckAll(kHalves, {{3, 5}, {2, 128}, {3, 1000}}, {1 << 20, 1 << 20}, 5);
  CheckAll(kNarrow, {{3, 5}, {2, 128}, {3, 1000}}, {1 << 20, 1 << 20}, 5);
  CheckAll(kBytes, {{3, 5}, {2, 128}, {3, 1000}}, {1 << 20, 1 << 20}, 5);
}

TEST_F(DeviceKernels, TilesOfAnyShape) {
  CheckAll(kTransposed, {{1, 1}, {3, 4}, {40, 33}, {7, 64}, {64, 70}}, {1 << 20, 1 << 20});
  CheckAll(kTransposedPlanes, {{1, 1, 1, 1}, {2, 3, 5, 7}, {1, 2, 33, 34}, {2, 35, 2, 40}},
           {1 << 10, 1 << 10, 1 << 10, 1 << 10}, 3);
}

TEST_F(DeviceKernels, RowsInRegisters) {
  const std::vector<std::vector<int64_t>> extents = {{1, 1},  {3, 4},    {5, 33},
                                                     {9, 64}, {17, 100}, {2, 128}};
  CheckAll(kRowSum, extents, {1 << 20, 128});
  CheckAll(kSoftmax, extents, {1 << 20, 128});
  CheckAll(kExponentials, {{1, 16}, {3, 5}, {9, 64}}, {1 << 20, 64});
}

// 128 elements in each thread of a warp.
TEST_F(DeviceKernels, LongerRowsInRegisters) {
  const Kernel kernel = *ParseKernel(kSoftmax);
  const std::vector<Schedule> all = DeviceCandidates(kernel, {1 << 20, 4096});
  const auto longest = std::find_if(all.begin(), all.end(), [](const Schedule& schedule) {
    return schedule.Is(kWarpRows) && schedule.As<WarpRows>().steps == 64;
  });
  ASSERT_NE(longest, all.end());
  DeviceKernelCheck check(gpu_, kernel, *longest);
  ASSERT_EQ(check.error(), "");
  for (const std::vector<int64_t>& at : {std::vector<int64_t>{5, 4096}, {3, 2050}, {1, 4095}}) {
    EXPECT_EQ(check.Run(RunOf(kernel, at)), "");
    EXPECT_EQ(check.Run(RunOf(kernel, at), /*shifted=*/~0U), "");
  }
}

TEST_F(DeviceKernels, AllElements) {
  CheckAll(kWholeSum, {{1}, {1000}, {4100}, {12345}}, {1 << 15});
  CheckAll(kWholeSum, {{5}, {8192}}, {1 << 30});
}

TEST_F(DeviceKernels, RowsOfSeveralBlocks) {
  CheckAll(kRowSum, {{2, 4095}, {1, 4096}, {2, 4097}, {1, 9000}}, {1 << 20, 1 << 20});
  CheckAll(kSoftmax, {{1, 4100}}, {1 << 20, 1 << 20});
}

TEST_F(DeviceKernels, ColumnsAndWhateverElse) {
  CheckAll(kColumns, {{1, 5}, {31, 3}, {33, 2}, {1025, 3}}, {1 << 20, 1 << 20});
  CheckAll(kColumns, {{1, 4}, {31, 8}, {64, 3}, {33, 260}}, {64, 1 << 20});
  const std::string both = std::string(kColumnSoftmax) + kLargest;
  CheckAll(both, {{2, 3, 4}, {3, 70, 5}, {1, 100, 132}}, {4, 128, 1 << 20});
  CheckAll(both, {{2, 3, 4}, {1, 1100, 4}}, {4, 1 << 15, 1 << 20});
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

TEST_F(DeviceKernels, HalvesAtFullWidth) {
  const kiln_ptx_counters counters = CountersOf(kHalves, {16, 4096});
  EXPECT_EQ(counters.load_requests, counters.full_warp_loads[4]);
  EXPECT_EQ(counters.load_sectors, counters.unique_load_sectors);
  EXPECT_EQ(counters.store_sectors, counters.unique_store_sectors);
  EXPECT_EQ(counters.local_accesses, 0u);
  // Of eight elements: two loads and a store, sixteen widened, eight sums, four pairs rounded.
  EXPECT_LE(counters.thread_instructions, 8u * 16 * 4096);
}

// A thread that walks down rows reads what they have in common once.
TEST_F(DeviceKernels, WalkedRowsShareTheirOperand) {
  const Kernel bias = *ParseKernel(kBias);
  const Kernel planes = *ParseKernel(
      "kernel v1 math 1\ndims a b c\nin   0 f16 [a, b, c] dense\nin   1 f16 [c] dense\n"
      "in   2 f16 [b, c] dense\nin   3 f16 [c] dense\n"
      "out  0 f16 [a, b, c] dense = add(mul(in0[a, b, c], in1[c]), sub(in3[c], in2[b, c]))\n");
  for (const char* text : {"streaming vector=4 columns=32 rows=4 walked=8",
                           "streaming vector=1 columns=64 rows=2 walked=5"}) {
    SCOPED_TRACE(text);
    const Schedule schedule = *Schedule::Parse(text, DeviceKind::kCuda);
    DeviceKernelCheck of_bias(gpu_, bias, schedule), of_planes(gpu_, planes, schedule);
    ASSERT_EQ(of_bias.error() + of_planes.error(), "");
    for (const std::vector<int64_t>& at : {std::vector<int64_t>{1, 4}, {33, 132}, {70, 30}})
      EXPECT_EQ(of_bias.Run(RunOf(bias, at)), "");
    EXPECT_EQ(of_planes.Run(RunOf(planes, {7, 11, 64})), "");
    EXPECT_EQ(of_planes.Run(RunOf(planes, {7, 11, 33}), /*shifted=*/~0U), "");
  }
  const Schedule schedule = *Schedule::Parse("streaming walked=32", DeviceKind::kCuda);
  DeviceKernelCheck check(gpu_, bias, schedule);
  kiln_ptx_clear();
  kiln_ptx_counters counters{};
  EXPECT_EQ(check.Run(RunOf(bias, {256, 512}), 0, &counters), "");
  EXPECT_LE(counters.load_sectors + counters.store_sectors, 2 * 256 * 512 / 8 * 1.02);
  EXPECT_LE(counters.thread_instructions, 5 * 256 * 512);
  EXPECT_EQ(counters.load_requests, counters.full_warp_loads[4]);
}

// All upper halves of f32, with lower halves at and around what is rounded up, down and to even:
// numbers, subnormals, infinities and NaNs, to both types, in memory and within a kernel.
TEST_F(DeviceKernels, RoundsToHalvesAsTheCpuDoes) {
  constexpr uint32_t kLower[] = {0x8000, 0x1000, 0, 1, 0x0fff, 0x3000, 0x7fff, 0x8001};
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
      "out  0 bf16 [a, b] dense = in0[a, b]\nout  1 f16 [a, b] dense = in0[a, b]\n"
      "out  2 f32 [a, b] dense = roundto<bf16>(in0[a, b])\n"
      "out  3 f32 [a, b] dense = roundto<f16>(in0[a, b])\n");
  for (const bool vectors : {true, false}) {  // of single elements fewer
    const Schedule schedule = *Schedule::Parse(
        vectors ? "streaming vector=4 columns=128" : "streaming vector=1", DeviceKind::kCuda);
    const uint32_t rows = vectors ? std::size(kLower) : 2;
    DeviceKernelCheck check(gpu_, kernel, schedule);
    ASSERT_EQ(check.error(), "");
    RandomRun run = RunOf(kernel, {rows, 1 << 16});
    auto* const elements = reinterpret_cast<uint32_t*>(run.inputs[0].data());
    for (uint32_t k = 0; k < rows; ++k)
      for (uint32_t upper = 0; upper < 1 << 16; ++upper)
        elements[k << 16 | upper] = upper << 16 | kLower[k];
    EXPECT_EQ(check.Run(run), "");
  }
}

// LLVM 21 fails at what it takes to be known of the bits of a `prmt` that extends a sign.
TEST_F(DeviceKernels, SignedBytesAreDividedAndShifted) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a\nin   0 i8 [a] dense\n"
      "s0 : i32 [] = reduce or over a (shr(div(sub(cast<i32>(in0[-a+|a|-1]), cast<i32>(in0[a])), "
      "cast<i32>(in0[a])), cast<i32>(in0[a])))\nout  0 i32 [] dense = s0[]\n");
  const Schedule schedule = *Schedule::Parse("long_rows levels=2", DeviceKind::kCuda);
  DeviceKernelCheck check(gpu_, kernel, schedule);
  ASSERT_EQ(check.error(), "");
  for (const int64_t length : {1, 100, 4100}) EXPECT_EQ(check.Run(RunOf(kernel, {length})), "");
}

// Lines are read whole along either dim, and tiles are turned without bank conflicts.
TEST_F(DeviceKernels, TilesReadTheirElementsOnce) {
  constexpr uint64_t kElements = 128 * 256;
  const Kernel kernel = *ParseKernel(kTransposed);
  const std::vector<Schedule> all = DeviceCandidates(kernel, {128, 256});
  for (size_t k = 0; k < all.size(); ++k) {
    if (!all[k].Is(kTiles)) continue;
    SCOPED_TRACE(all[k].ToString());
    const kiln_ptx_counters counters = CountersOf(kTransposed, {128, 256}, k);
    EXPECT_EQ(counters.load_sectors, 2 * kElements / 8);
    EXPECT_EQ(counters.store_sectors, kElements / 8);
    EXPECT_GT(counters.shared_wavefronts, 0u);
    EXPECT_EQ(counters.shared_wavefronts, counters.ideal_wavefronts);
    EXPECT_EQ(counters.local_accesses, 0u);
  }
}

// A row is read once where it stays in registers; without shared memory and barriers.
TEST_F(DeviceKernels, SoftmaxReadsItsRowsOnce) {
  const kiln_ptx_counters counters = CountersOf(kSoftmax, {64, 512}, 1);
  EXPECT_EQ(counters.load_sectors, counters.unique_load_sectors);
  EXPECT_EQ(counters.load_requests, counters.full_warp_loads[4]);
  EXPECT_EQ(counters.barriers + counters.shared_requests + counters.local_accesses, 0u);
  EXPECT_LE(counters.thread_instructions, 45u * 64 * 512);
}

// Warps read whole lines of neighbouring columns, each once; what is folded has no bank conflicts.
TEST_F(DeviceKernels, ColumnsReadTheirElementsOnce) {
  constexpr uint64_t kElements = 1024 * 256;
  for (const size_t candidate : {0, 1, 2}) {
    const kiln_ptx_counters counters = CountersOf(kColumns, {1024, 256}, candidate);
    EXPECT_EQ(counters.load_sectors, kElements / 8);
    EXPECT_EQ(counters.load_requests, counters.full_warp_loads[4]);
    EXPECT_EQ(counters.store_sectors, counters.unique_store_sectors);
    EXPECT_EQ(counters.shared_wavefronts, counters.ideal_wavefronts);
    EXPECT_EQ(counters.local_accesses, 0u);
    EXPECT_LE(counters.thread_instructions, 12 * kElements);
  }
}

// One launch: a pass over the columns for each reduction, and one for the output.
TEST_F(DeviceKernels, SoftmaxOverColumnsIsOneLaunch) {
  constexpr uint64_t kElements = 2 * 96 * 256;
  const kiln_ptx_counters counters = CountersOf(kColumnSoftmax, {2, 96, 256});
  EXPECT_EQ(counters.launches, 1u);
  EXPECT_LE(counters.load_sectors + counters.store_sectors, kElements / 8 * 2 * 2.02);
  EXPECT_EQ(counters.shared_wavefronts, counters.ideal_wavefronts);
  EXPECT_EQ(counters.local_accesses, 0u);
}

// A row that is a block is read once for each reduction and once for the output; a level over the
// device reads once.
TEST_F(DeviceKernels, LongRowsAreReadOnceForEachPass) {
  constexpr uint64_t kElements = 4 * 16384, kSectors = kElements / 8;
  const auto counters_of = [&](const char* text, int64_t blocks) {
    const std::vector<Schedule> all = DeviceCandidates(*ParseKernel(text), {4, 16384});
    size_t k = 0;
    while (!all[k].Is(kLongRows) || all[k].As<LongRows>().blocks != blocks) ++k;
    const kiln_ptx_counters counters = CountersOf(text, {4, 16384}, k);
    EXPECT_EQ(counters.shared_wavefronts, counters.ideal_wavefronts);
    EXPECT_EQ(counters.local_accesses, 0u);
    return counters;
  };
  const kiln_ptx_counters sum = counters_of(kRowSum, 4), levels = counters_of(kRowSum, 0);
  EXPECT_EQ(sum.launches, 1u);
  EXPECT_EQ(sum.load_requests, sum.full_warp_loads[4]);
  for (const kiln_ptx_counters& counters : {sum, levels}) {
    EXPECT_LE(counters.load_sectors, kSectors * 1.02);
    EXPECT_LE(counters.thread_instructions, 12 * kElements);
  }
  const kiln_ptx_counters softmax = counters_of(kSoftmax, 4);
  EXPECT_EQ(softmax.launches, 1u);
  EXPECT_LE(softmax.load_sectors + softmax.store_sectors, 2 * kSectors * 2.02);
}

// What is made for a whole block is made, whether its only uses are chosen or not.
TEST_F(DeviceKernels, WhatABlockSharesIsWritten) {
  constexpr char kRows[] =
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\nin   1 f32 [a] dense\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\n"
      "out  0 f32 [a, b] dense = select(lt(in1[a], 0), s0[a], in0[a, b])\n";
  constexpr char kPlanes[] =
      "kernel v1 math 1\ndims a b c\nin   0 f32 [a, b, c] dense\nin   1 f32 [a] dense\n"
      "s0 : f32 [a, c] = reduce add over b (in0[a, b, c])\n"
      "out  0 f32 [a, b, c] dense = select(lt(in1[a], 0), s0[a, c], in0[a, b, c])\n";
  constexpr char kTransposes[] =
      "kernel v1 math 1\ndims a b c\nin   0 f32 [a, c, b] dense\nin   1 f32 [a] dense\n"
      "out  0 f32 [a, b, c] dense = select(lt(in1[a], 0), in0[a, c, b], 1)\n";
  CheckAll(kRows, {{9, 40}, {3, 5000}}, {1 << 20, 1 << 20}, 2);
  CheckAll(kPlanes, {{9, 40, 8}, {3, 70, 33}}, {1 << 10, 128, 1 << 20}, 4);
  CheckAll(kTransposes, {{9, 40, 8}, {3, 70, 33}}, {1 << 10, 1 << 10, 1 << 10}, 4);
}

// Elements of 4 and of 8 bytes that a block shares.
TEST_F(DeviceKernels, WhatABlockSharesLiesApart) {
  constexpr char kRows[] =
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\nin   1 f64 [a, b] dense\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\n"
      "s1 : f32 [a] = reduce add over b (mul(sub(in0[a, b], s0[a]), in0[a, b]))\n"
      "s2 : f32 [a] = sqrt(s1[a])\ns3 : bool [a] = lt(s1[a], s0[a])\n"
      "s4 : f64 [a] = reduce add over b "
      "(mul(cast<f64>(div(sub(in0[a, b], s0[a]), s2[a])), in1[a, b]))\n"
      "out  0 f64 [a] dense = select(s3[a], s4[a], cast<f64>(s2[a]))\n";
  constexpr char kPlanes[] =
      "kernel v1 math 1\ndims a b c\nin   0 f32 [a, b, c] dense\nin   1 f64 [a, b, c] dense\n"
      "s0 : f32 [a, c] = reduce add over b (in0[a, b, c])\n"
      "s1 : bool [a, c] = reduce or over b (lt(in0[a, b, c], s0[a, c]))\n"
      "s2 : f64 [a, c] = reduce add over b "
      "(mul(cast<f64>(sub(in0[a, b, c], s0[a, c])), in1[a, b, c]))\n"
      "out  0 f64 [a, c] dense = select(s1[a, c], s2[a, c], cast<f64>(s0[a, c]))\n";
  CheckAll(kRows, {{3, 6}, {2, 4100}}, {1 << 20, 1 << 20}, 2);
  CheckAll(kPlanes, {{3, 70, 1}, {2, 40, 8}, {2, 33, 9}}, {1 << 10, 128, 1 << 20}, 5);
}

// A row that is no dense operand is read by vectors, too, where it begins at one.
TEST_F(DeviceKernels, RowsBeginWhereTheyDo) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a\nin   0 f32 [a] rows\n"
      "s0 : f32 [] = reduce add over a (in0[a])\n"
      "out  0 f32 [a] dense = sub(in0[a], s0[])\n");
  for (const Schedule& schedule : DeviceCandidates(kernel, {1 << 20})) {
    SCOPED_TRACE(schedule.ToString());
    DeviceKernelCheck check(gpu_, kernel, schedule);
    ASSERT_EQ(check.error(), "");
    EXPECT_EQ(check.Run(RunOf(kernel, {256}), /*shifted=*/1), "");
  }
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
