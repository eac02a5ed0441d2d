// SPDX-License-Identifier: Apache-2.0
#include "kernel/nan_check_elision.h"

#include <string>

#include "gtest/gtest.h"
#include "kernel/math.h"
#include "kernel/text.h"

namespace kiln {
namespace {

// Rows of a matrix, with stage 0 their maximum.
bool Shows(const std::string& rest) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(
      "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a, b] dense\n"
      "s0 : f32 [a] = reduce max over b (in0[a, b])\n" +
      rest);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (!kernel.ok()) return false;
  const absl::StatusOr<Kernel> expanded = ExpandMath(*kernel);
  EXPECT_TRUE(expanded.ok()) << expanded.status();
  const bool shows = NanCheckElisionWithout(*kernel, 0);
  EXPECT_EQ(expanded->stages[0].op, shows ? ReduceOp::kGreatest : ReduceOp::kMax);
  return shows;
}

constexpr char kExps[] =
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\ns2 : f32 [a] = reduce add over b (s1[a, b])\n";

TEST(NanCheckElisionWithout, IsSoInSoftmax) {
  EXPECT_TRUE(Shows(std::string(kExps) + "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n"));
  EXPECT_TRUE(
      Shows(std::string(kExps) + "out 0 f16 [a, b] dense = mul(s1[a, b], div(1, s2[a]))\n"));
}

TEST(NanCheckElisionWithout, IsSoInLogSoftmax) {
  EXPECT_TRUE(
      Shows("s1 : f32 [a] = reduce add over b (exp(sub(in0[a, b], s0[a])))\n"
            "out 0 f32 [a, b] dense = sub(sub(in0[a, b], s0[a]), log(s1[a]))\n"));
}

TEST(NanCheckElisionWithout, IsSoWhereTheResultIsHidden) {
  EXPECT_TRUE(
      Shows(std::string(kExps) +
            "out 0 f32 [a, b] dense = select(lt(in1[a, b], 0), 0, div(s1[a, b], s2[a]))\n"));
}

TEST(NanCheckElisionWithout, IsNotSoWhereTheResultMayBeAnother) {
  EXPECT_FALSE(Shows(std::string(kExps) +
                     "out 0 f32 [a, b] dense = select(lt(in1[a, b], 0), s1[a, b], s2[a])\n"));
}

TEST(NanCheckElisionWithout, IsNotSoWhereTheMaximumIsSeen) {
  EXPECT_FALSE(Shows("out 0 f32 [a] dense = s0[a]\n"));
  EXPECT_FALSE(Shows("out 0 f32 [a, b] dense = exp(sub(in0[a, b], s0[a]))\n"));
  EXPECT_FALSE(Shows(std::string(kExps) + "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n" +
                     "out 1 f32 [a] dense = s0[a]\n"));
}

TEST(NanCheckElisionWithout, IsNotSoWhereTheSumIsOfOthers) {
  EXPECT_FALSE(
      Shows("s1 : f32 [a] = reduce add over b (exp(sub(in1[a, b], s0[a])))\n"
            "out 0 f32 [a, b] dense = div(exp(sub(in1[a, b], s0[a])), s1[a])\n"));
}

TEST(NanCheckElisionWithout, IsNotSoWhereNaNIsDroppedBeforeTheSum) {
  EXPECT_FALSE(Shows(
      "s1 : f32 [a] = reduce add over b (select(isnan(in0[a, b]), 0, exp(sub(in0[a, b], s0[a]))))\n"
      "out 0 f32 [a, b] dense = div(exp(sub(in0[a, b], s0[a])), s1[a])\n"));
}

TEST(NanCheckElisionWithout, IsNotSoWhereTheBitsOfNaNAreSeen) {
  EXPECT_FALSE(
      Shows(std::string(kExps) + "out 0 i32 [a, b] dense = bitcast<i32>(div(s1[a, b], s2[a]))\n"));
}

}  // namespace
}  // namespace kiln
