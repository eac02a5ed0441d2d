// SPDX-License-Identifier: Apache-2.0
#include "kernel/naive.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernel/eval.h"
#include "kernel/text.h"

namespace kiln {
namespace {

uint64_t F(float x) { return std::bit_cast<uint32_t>(x); }
float ToFloat(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

// The value of a text expression without operands.
uint64_t Eval(const std::string& type, const std::string& text) {
  const auto kernel = ParseKernel("kernel v1 math 1\nout 0 " + type + " [] dense = " + text + "\n");
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  std::vector<uint64_t> scratch;
  return EvalScalar(
      kernel->outputs[0].expr, [](ExprId, const uint64_t*) { return uint64_t{0}; }, scratch);
}

TEST(EvalScalar, IntegersWrapAndNeverTrap) {
  EXPECT_EQ(Eval("i32", "add(i32:2147483647, i32:1)"), static_cast<uint64_t>(int64_t{-2147483648}));
  EXPECT_EQ(Eval("i32", "div(i32:-2147483648, i32:-1)"),
            static_cast<uint64_t>(int64_t{-2147483648}));
  EXPECT_EQ(Eval("i64", "mod(i64:-9223372036854775808, i64:-1)"), 0u);
  EXPECT_EQ(Eval("i32", "div(i32:-7, i32:2)"), static_cast<uint64_t>(int64_t{-3}));
  EXPECT_EQ(Eval("u8", "div(u8:7, u8:0)"), 0u);
  EXPECT_EQ(Eval("u8", "sub(u8:0, u8:1)"), 255u);
  EXPECT_EQ(Eval("i8", "shr(i8:-128, i8:9)"), static_cast<uint64_t>(int64_t{-1}));
  EXPECT_EQ(Eval("i8", "shl(i8:1, i8:8)"), 0u);
  EXPECT_EQ(Eval("u32", "shl(u32:1, u32:31)"), 0x80000000u);
}

TEST(EvalScalar, CastsSaturate) {
  EXPECT_EQ(Eval("i32", "cast<i32>(nan)"), 0u);
  EXPECT_EQ(Eval("i32", "cast<i32>(inf)"), 2147483647u);
  EXPECT_EQ(Eval("i64", "cast<i64>(-inf)"),
            static_cast<uint64_t>(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(Eval("u64", "cast<u64>(inf)"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Eval("u8", "cast<u8>(-1)"), 0u);
  EXPECT_EQ(Eval("i8", "cast<i8>(i32:300)"), 44u);
  EXPECT_EQ(Eval("bool", "cast<bool>(nan)"), 1u);
  EXPECT_EQ(Eval("f32", "cast<f32>(i64:16777217)"), F(16777216.0f));
}

TEST(EvalScalar, NanAndMinusZeroFollowTheRules) {
  EXPECT_TRUE(std::isnan(ToFloat(Eval("f32", "max(1, nan)"))));
  EXPECT_TRUE(std::isnan(ToFloat(Eval("f32", "min(nan, 1)"))));
  EXPECT_TRUE(std::isnan(ToFloat(Eval("f32", "sign(nan)"))));
  EXPECT_EQ(Eval("f32", "sign(-0)"), F(-0.0f));
  EXPECT_EQ(Eval("f32", "max(-0, 0)"), F(0.0f));
  EXPECT_EQ(Eval("f32", "max(0, -0)"), F(-0.0f));
  EXPECT_EQ(Eval("f32", "round(0x1.4p+1)"), F(2.0f));
  EXPECT_EQ(Eval("f32", "roundto<bf16>(0x1.010002p+0)"), F(0x1.02p+0f));
}

TEST(ReduceRow, FollowsTheLaneRule) {
  // 65 elements: element 64 joins lane 0 before the fold; with 2^24 in lane 0 the order shows.
  std::vector<uint64_t> row(65, F(0.0f));
  row[0] = F(16777216.0f);
  row[64] = F(1.0f);
  row[1] = F(1.0f);
  EXPECT_EQ(ReduceRow(ReduceOp::kAdd, DType::kF32, row, true), F(16777216.0f));
  row[64] = F(0.0f);
  row[33] = F(1.0f);  // folds with lane 1 first: 2^24 + 2
  EXPECT_EQ(ReduceRow(ReduceOp::kAdd, DType::kF32, row, true), F(16777218.0f));
  EXPECT_EQ(ReduceRow(ReduceOp::kAdd, DType::kF32, row, false), F(16777216.0f));
}

TEST(ReduceRow, ReducesBlockResultsByTheSameRule) {
  std::vector<uint64_t> ones(33554432 / 64, F(1.0f));
  EXPECT_EQ(ReduceRow(ReduceOp::kAdd, DType::kF32, ones, true), F(524288.0f));
  EXPECT_EQ(ReduceRow(ReduceOp::kAdd, DType::kF32, ones, false), F(524288.0f));
  EXPECT_EQ(ReduceRow(ReduceOp::kAdd, DType::kF32, {F(-0.0f)}, true), F(-0.0f));
  EXPECT_TRUE(std::isnan(
      ToFloat(ReduceRow(ReduceOp::kMax, DType::kF32, {F(1.0f), F(NAN), F(2.0f)}, true))));
}

TEST(EvalKernel, RunsSoftmaxWithStridesAndParameters) {
  const auto kernel = ParseKernel(
      "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] rows\nin 1 f32 [b] dense\npar 0 f32\n"
      "s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])\ns1 : f32 [a] = reduce max over b "
      "(s0[a, b])\n"
      "s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))\ns3 : f32 [a] = reduce add over b (s2[a, b])\n"
      "out 0 f32 [a, b] dense = div(s2[a, b], s3[a])\n");
  ASSERT_TRUE(kernel.ok());
  std::vector<float> x = {1, 2, 3, -9, 4, 4, 4, -9};
  std::vector<float> mask = {0, 0, -INFINITY};
  std::vector<float> y(6, -1);
  const NaiveBuffer inputs[] = {{x.data(), {4, 1}}, {mask.data(), {1}}};
  const NaiveBuffer outputs[] = {{y.data(), {3, 1}}};
  const int64_t extents[] = {2, 3};
  const uint64_t params[] = {F(2.0f)};
  ASSERT_TRUE(EvalKernel(*kernel, inputs, extents, params, outputs).ok());
  EXPECT_NEAR(y[0], 1 / (1 + std::exp(2.0)), 1e-7);
  EXPECT_NEAR(y[1], 1 / (1 + std::exp(-2.0)), 1e-7);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 0.5f);
  EXPECT_FALSE(EvalKernel(*kernel, inputs, extents, {}, outputs).ok());
}

TEST(EvalKernel, IndexArithmeticFloorsAndLoadsClamp) {
  const auto kernel = ParseKernel(
      "kernel v1 math 1\ndims a\nsizes n\nin 0 i32 [n] dense\nin 1 i64 [a] dense\n"
      "out 0 i32 [a] dense = in0[[in1[a]]]\nout 1 i32 [a] dense = in0[((a-2)/2)%3]\n"
      "out 2 i32 [a] dense = guard(le(i64:2, index(a)), in0[a-2], i32:-1)\n");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<int32_t> x = {10, 11, 12};
  std::vector<int64_t> at = {-1, 2, 99, -99};
  std::vector<int32_t> y(4), z(4), w(4);
  const NaiveBuffer inputs[] = {{x.data(), {1}}, {at.data(), {1}}};
  const NaiveBuffer outputs[] = {{y.data(), {1}}, {z.data(), {1}}, {w.data(), {1}}};
  const int64_t extents[] = {4, 3};
  ASSERT_TRUE(EvalKernel(*kernel, inputs, extents, {}, outputs).ok());
  EXPECT_EQ(y, (std::vector<int32_t>{12, 12, 12, 10}));
  EXPECT_EQ(z, (std::vector<int32_t>{12, 12, 10, 10}));
  EXPECT_EQ(w, (std::vector<int32_t>{-1, -1, 10, 11}));
}

TEST(EvalKernel, EmptyReductionsGiveTheValueForNothing) {
  const auto kernel = ParseKernel(
      "kernel v1 math 1\ndims a b c\nin 0 f32 [a, b, c] dense\n"
      "s0 : f32 [a] = reduce add over b c (in0[a, b, c])\ns1 : f32 [a] = reduce max over b c "
      "(in0[a, b, c])\n"
      "out 0 f32 [a] dense = s0[a]\nout 1 f32 [a] dense = s1[a]\n");
  ASSERT_TRUE(kernel.ok());
  for (const int64_t b : {int64_t{0}, int64_t{2}}) {
    float sum = 7;
    float max = 7;
    const NaiveBuffer inputs[] = {{nullptr, {0, 0, 1}}};
    const NaiveBuffer outputs[] = {{&sum, {1}}, {&max, {1}}};
    const int64_t extents[] = {1, b, b == 0 ? 3 : 0};
    ASSERT_TRUE(EvalKernel(*kernel, inputs, extents, {}, outputs).ok());
    EXPECT_EQ(F(sum), F(0.0f));
    EXPECT_EQ(max, -INFINITY);
  }
}

}  // namespace
}  // namespace kiln
