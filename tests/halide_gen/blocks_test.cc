// SPDX-License-Identifier: Apache-2.0
// Kernels whose last dims are tiny and lie in another order in inputs, against EvalKernel, bit by
// bit: in vectors, with a last one that begins earlier, and at other extents than are known.
#include <gtest/gtest.h>

#include "tests/halide_gen/harness.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

class BlocksTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  CompiledKernel Compile(const std::string& text, SizeClass sizes,
                         const std::string& words = "packed_blocks") {
    return CompiledKernel("kernel v1 math 1\n" + text, GetParam(), words, std::move(sizes));
  }
};

TEST_P(BlocksTest, TinyMatricesAreTransposed) {
  CompiledKernel kernel = Compile(
      "dims a b c\nin 0 f32 [a, c, b] dense\nout 0 f32 [a, b, c] dense = neg(in0[a, c, b])\n",
      {{kUnbounded, 3, 5}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "dims", 0), 2);
  EXPECT_EQ(FieldOf(kernel.schedule(), "blocks", 0), 8);
  for (const int32_t a : {0, 1, 7, 8, 9, 16, 100, 1000}) kernel.Check({a, 3, 5}, 1);
  for (const int32_t a : {1, 8, 9}) {
    kernel.Check({a, 5, 3}, 1);
    kernel.Check({a, 1, 5}, 1);
    kernel.Check({a, 3, 0}, 1);
    kernel.Check({a, 20, 30}, 1);
  }
}

TEST_P(BlocksTest, ABlockMayFillAVectorAndAnElement) {
  CompiledKernel kernel = Compile(
      "dims a b c\nin 0 f32 [a, c, b] dense\nout 0 f32 [a, b, c] dense = neg(in0[a, c, b])\n",
      {{kUnbounded, 11, 11}}, "packed_blocks blocks=1");
  for (const int32_t a : {1, 3}) kernel.Check({a, 11, 11}, 1);
}

// Operands over any of the dims, in any order, of several types.
TEST_P(BlocksTest, WhateverElseIsRead) {
  CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, d, b, c] dense
in   1 f32 [d] dense
in   2 u8 [c, a] dense
in   3 f64 [a, b, c, d] dense
in   4 f32 [b, a, d, c] dense
in   5 i32 [b] dense
par  0 f32
out  0 f64 [a, b, c, d] dense = add(cast<f64>(mul(in0[a, d, b, c], in1[d])), in3[a, b, c, d])
out  1 u8 [a, b, c, d] dense = add(in2[c, a], cast<u8>(index(d)))
out  2 f32 [a, b, c, d] dense = exp(sub(mul(in4[b, a, d, c], par0), cast<f32>(in5[b])))
)",
                                  {{kUnbounded, kUnbounded, 2, 3}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "dims", 0), 2);
  EXPECT_TRUE(kernel.schedule().in_place.empty());
  for (const int32_t b : {1, 2, 5, 16, 17, 50}) {
    for (const int32_t a : {1, 7}) kernel.Check({a, b, 2, 3}, static_cast<uint32_t>(b));
  }
  kernel.Check({3, 4, 3, 2}, 1);
}

TEST_P(BlocksTest, BlocksFollowEachOtherAlongADimThatIsTurned) {
  CompiledKernel kernel = Compile(
      "dims a b c d\nin 0 f32 [b, d, a, c] dense\nout 0 f32 [a, b, c, d] dense = neg(in0[b, "
      "d, a, c])\n",
      {{kUnbounded, kUnbounded, 2, 3}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "dims", 0), 2);
  for (const int32_t b : {1, 15, 16, 17, 200}) {
    for (const int32_t a : {1, 40}) kernel.Check({a, b, 2, 3}, static_cast<uint32_t>(a));
  }
}

// Bytes of pixels with few channels, of rows of few pixels.
TEST_P(BlocksTest, RowsOfChannels) {
  CompiledKernel kernel = Compile(
      "dims a b c\nin 0 u8 [a, c, b] dense\nin 1 f32 [b] dense\nout 0 f32 [a, b, c] dense = "
      "sub(cast<f32>(in0[a, c, b]), in1[b])\n",
      {{kUnbounded, 3, 15}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "dims", 0), 2);
  for (const int32_t n : {1, 7, 8, 9, 15}) kernel.Check({40, 3, n}, 1);
}

INSTANTIATE_TEST_SUITE_P(Levels, BlocksTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) {
                           return info.param == IsaLevel::kV3 ? "V3" : "V4";
                         });

}  // namespace
}  // namespace kiln
