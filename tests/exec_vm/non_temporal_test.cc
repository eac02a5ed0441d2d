// SPDX-License-Identifier: Apache-2.0
#include "exec/support/non_temporal.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

constexpr int64_t kMillion = int64_t{1} << 20;

// Flat f32 operands of so many elements.
bool Leaves(const std::vector<int64_t>& inputs, const std::vector<int64_t>& outputs) {
  std::vector<int64_t> sizes = inputs;
  sizes.insert(sizes.end(), outputs.begin(), outputs.end());
  static constexpr int64_t kOne[] = {1};
  std::vector<OperandShape> operands;
  for (const int64_t& size : sizes) operands.push_back({{&size, 1}, kOne, 4});
  return ExceedsCache(operands, inputs.size());
}

TEST(ExceedsCacheTest, LargeResultsDo) {
  EXPECT_TRUE(Leaves({6 * kMillion}, {6 * kMillion}));
  EXPECT_TRUE(Leaves({}, {16 * kMillion}));
  EXPECT_FALSE(Leaves({kMillion}, {kMillion}));
  EXPECT_FALSE(Leaves({16 * kMillion}, {1000}));  // a reduction
}

TEST(ExceedsCacheTest, WhatIsReadAgainAndAgainCountsOnce) {
  const std::vector<int64_t> shape = {4096, 4096}, rows = {4096, 1}, same = {0, 1};
  const std::vector<int64_t> few = {64, 4096};
  const OperandShape wide{shape, same, 4}, out{few, rows, 4};
  EXPECT_FALSE(ExceedsCache(std::vector<OperandShape>{wide, out}, 1));
  EXPECT_TRUE(ExceedsCache(std::vector<OperandShape>{{shape, rows, 4}, {shape, rows, 4}}, 1));
}

struct Buffer {
  BufferDim dims[2];
  BufferArg arg;
  // f32 rows of 32 elements, `stride` apart, from byte `at` of a line.
  Buffer(uint8_t* host, int32_t stride) : dims{{0, 32, 1, 0}, {0, 3, stride, 0}} {
    arg.host = host;
    arg.type_bits = 32;
    arg.dimensions = 2;
    arg.dim = dims;
  }
};

TEST(MayStoreNonTemporalTest, WholeLinesThatNoInputHas) {
  alignas(64) uint8_t memory[4096];
  const auto may = [&](size_t in, size_t out, int32_t stride) {
    const Buffer a(memory + in, 32), b(memory + out, stride);
    return MayStoreNonTemporal(std::vector<BufferArg>{a.arg, b.arg}, 1);
  };
  EXPECT_TRUE(may(4, 1024, 32));
  EXPECT_TRUE(may(4, 1024, 48));
  EXPECT_FALSE(may(4, 1024, 33));
  EXPECT_FALSE(may(4, 1024, 40));
  EXPECT_FALSE(may(4, 1028, 32));
  EXPECT_FALSE(may(1024, 1024, 32));
}

}  // namespace
}  // namespace kiln
