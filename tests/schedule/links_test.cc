// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/loop_fission.h"

#include <gtest/gtest.h>

#include "kernel/text.h"

namespace kiln {
namespace {

std::string Linked(const std::string& body, const std::string& after = "",
                   const std::string& stages = "") {
  const auto kernel =
      ParseKernel("kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\nin   1 f32 [b] dense\n" +
                  stages + "out  0 f32 [a, b] dense = " + body + "\n" + after);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << body;
  if (!kernel.ok()) return "";
  const std::optional<Kernel> linked = InLinks(*kernel);
  if (!linked) return "as it was";
  EXPECT_TRUE(Verify(*linked).ok()) << Verify(*linked);
  const std::string text = Print(*linked);
  return text.substr(text.find("s0"));
}

TEST(LinksTest, CutsALongChainBetweenFunctions) {
  EXPECT_EQ(Linked("sin(cos(add(sin(mul(cos(sin(cos(in0[a, b]))), in0[a, b])), in1[b])))"),
            "s0 : f32 [a, b] = cos(in0[a, b])\n"
            "s1 : f32 [a, b] = sin(s0[a, b])\n"
            "s2 : f32 [a, b] = cos(s1[a, b])\n"
            "s3 : f32 [a, b] = sin(mul(s2[a, b], in0[a, b]))\n"
            "s4 : f32 [a, b] = cos(add(s3[a, b], in1[b]))\n"
            "out  0 f32 [a, b] dense = sin(s4[a, b])\n");
}

TEST(LinksTest, CutsWhereOneValueIsNeededLater) {
  // Both the inner tanh and its product with in1 are needed by the outer ones.
  EXPECT_EQ(Linked("sin(mul(sin(mul(erf(mul(tanh(sin(in0[a, b])), in1[b])), "
                   "tanh(sin(in0[a, b])))), in1[b]))"),
            "s0 : f32 [a, b] = sin(in0[a, b])\n"
            "s1 : f32 [a, b] = tanh(s0[a, b])\n"
            "s2 : f32 [a, b] = mul(erf(mul(s1[a, b], in1[b])), s1[a, b])\n"
            "s3 : f32 [a, b] = sin(s2[a, b])\n"
            "out  0 f32 [a, b] dense = sin(mul(s3[a, b], in1[b]))\n");
}

TEST(LinksTest, TakesStagesForPartsOfTheChain) {
  EXPECT_EQ(Linked("mul(exp(s0[a, b]), s0[a, b])", "", "s0 : f32 [a, b] = log(in0[a, b])\n"),
            "s0 : f32 [a, b] = log(in0[a, b])\n"
            "out  0 f32 [a, b] dense = mul(exp(s0[a, b]), s0[a, b])\n");
}

TEST(LinksTest, LeavesOthersAsTheyAre) {
  const std::string chain = "sin(cos(sin(cos(sin(cos(in0[a, b]))))))";
  EXPECT_EQ(Linked("tanh(add(in0[a, b], in1[b]))"), "as it was");
  EXPECT_EQ(Linked("guard(lt(index(b), i64:3), " + chain + ", 0)"), "as it was");
  EXPECT_EQ(Linked(chain, "out  1 f32 [a, b] dense = in0[a, b]\n"), "as it was");
}

}  // namespace
}  // namespace kiln
