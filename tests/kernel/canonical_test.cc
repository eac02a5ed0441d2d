// SPDX-License-Identifier: Apache-2.0
#include "kernel/canonical.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel/text.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CanonicalKernel Canonical(const std::string& body, const std::vector<int64_t>& extents = {}) {
  const auto raw = ParseKernel("kernel v1 math 1\n" + body);
  EXPECT_TRUE(raw.ok()) << raw.status() << "\n" << body;
  auto canonical = Canonicalize(*raw, extents);
  EXPECT_TRUE(canonical.ok()) << canonical.status() << "\n" << body;
  // Its text parses, and is a fixed point.
  const std::string text = Print(canonical->kernel);
  const auto again = ParseKernel(text);
  EXPECT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(Print(*again), text);
  EXPECT_EQ(Print(Canonicalize(*again)->kernel), text);
  return *std::move(canonical);
}
std::string Text(const std::string& body, const std::vector<int64_t>& extents = {}) {
  return Print(Canonical(body, extents).kernel);
}

TEST(Canonicalize, KeepsHowOftenASumAtAPlaceTakesAnElement) {
  // Places are merged as the updates are; a dim that nothing reads counts all the same.
  EXPECT_EQ(Text("dims r s t\nsizes v\nin 0 f32 [r, s, t] dense\nin 1 i64 [r, s] dense\n"
                 "out 0 f32 [v, t] dense = add_at[[in1[r, s]], t](in0[r, s, t])\n"),
            "kernel v1 math 1\ndims a b\nsizes n0\nin   0 i64 [a] dense\nin   1 f32 [a, b] dense\n"
            "out  0 f32 [n0, b] dense = add_at[[in0[a]], b](in1[a, b])\n");
  EXPECT_EQ(Text("dims r s\nsizes v\nin 0 i64 [r] dense\n"
                 "out 0 f32 [v] dense = add_at[[in0[r]]](1)\n"),
            "kernel v1 math 1\ndims a b\nsizes n0\nin   0 i64 [a] dense\n"
            "out  0 f32 [n0] dense = add_at[[in0[a]]](1)\n");
}

TEST(Canonicalize, GivesTheDocumentedSoftmax) {
  // One stage per node, mask first, as a lowering writes it.
  EXPECT_EQ(Text("dims rows cols\nin 0 f32 [cols] dense\nin 1 f32 [rows, cols] dense\n"
                 "s0 : f32 [rows, cols] = mul(0x1.8p+1, in1[rows, cols])\n"
                 "s1 : f32 [rows, cols] = add(in0[cols], s0[rows, cols])\n"
                 "s2 : f32 [rows] = reduce max over cols (s1[rows, cols])\n"
                 "s3 : f32 [rows, cols] = sub(s1[rows, cols], s2[rows])\n"
                 "s4 : f32 [rows, cols] = exp(s3[rows, cols])\n"
                 "s5 : f32 [rows] = reduce add over cols (s4[rows, cols])\n"
                 "out 0 f32 [rows, cols] dense = div(s4[rows, cols], s5[rows])\n"),
            Text("dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\npar 0 f32\n"
                 "s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])\n"
                 "s1 : f32 [a] = reduce max over b (s0[a, b])\n"
                 "s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))\n"
                 "s3 : f32 [a] = reduce add over b (s2[a, b])\n"
                 "out 0 f32 [a, b] dense = div(s2[a, b], s3[a])\n"));
  const std::string text = Text(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\npar 0 f32\n"
      "s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])\n"
      "s1 : f32 [a] = reduce max over b (s0[a, b])\n"
      "s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))\n"
      "s3 : f32 [a] = reduce add over b (s2[a, b])\n"
      "out 0 f32 [a, b] dense = div(s2[a, b], s3[a])\n");
  EXPECT_THAT(text, HasSubstr("s1 : f32 [a]    = reduce max over b (s0[a, b])\n"));
  EXPECT_THAT(text, HasSubstr("s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))\n"));
  EXPECT_THAT(text, HasSubstr("out  0 f32 [a, b] dense = div(s2[a, b], s3[a])\n"));
}

TEST(Canonicalize, OrdersProductsOfThree) {
  const auto product = [](const std::string& x, const std::string& y, const std::string& z,
                          bool flip) {
    const std::string pair = absl::StrCat("mul(", x, ", ", y, ")");
    return Text(
        "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\nin 2 f32 [a] strided\nout 0 f32 [a] dense "
        "= " +
        (flip ? absl::StrCat("mul(", z, ", ", pair, ")")
              : absl::StrCat("mul(", pair, ", ", z, ")")) +
        "\n");
  };
  const std::string want = product("in0[a]", "in1[a]", "in2[a]", false);
  EXPECT_EQ(product("in1[a]", "in0[a]", "in2[a]", false), want);
  EXPECT_EQ(product("in0[a]", "in1[a]", "in2[a]", true), want);
  EXPECT_EQ(product("in1[a]", "in0[a]", "in2[a]", true), want);
  // Another association is another computation.
  EXPECT_NE(product("in0[a]", "in2[a]", "in1[a]", false), want);
}

TEST(Canonicalize, NeverReordersMinAndMax) {
  const std::string head = "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] strided\n";
  EXPECT_NE(Text(head + "out 0 f32 [a] dense = max(in0[a], in1[a])\n"),
            Text(head + "out 0 f32 [a] dense = max(in1[a], in0[a])\n"));
}

TEST(Canonicalize, TellsLookAlikeInputsApartByTheirUse) {
  const std::string head = "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\n";
  const std::string want =
      Text(head + "out 0 f32 [a] dense = add(in0[a], in1[a])\nout 1 f32 [a] dense = exp(in0[a])\n");
  EXPECT_EQ(
      Text(head + "out 0 f32 [a] dense = add(in1[a], in0[a])\nout 1 f32 [a] dense = exp(in0[a])\n"),
      want);
  EXPECT_EQ(
      Text(head + "out 0 f32 [a] dense = exp(in1[a])\nout 1 f32 [a] dense = add(in0[a], in1[a])\n"),
      want);
}

TEST(Canonicalize, SaysWhereOperandsWent) {
  const CanonicalKernel kernel = Canonical(
      "dims x y z\nin 0 f32 [z] dense\nin 1 f32 [x, y, z] dense\nin 2 f32 [z] dense\npar 0 "
      "f32\npar 1 f32\n"
      "out 0 f32 [x, y, z] dense = exp(sub(in1[x, y, z], par1))\n"
      "out 1 f32 [x, y, z] dense = sub(sub(in1[x, y, z], in2[z]), 0x1.8p+1)\n");
  EXPECT_THAT(kernel.dims, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  ASSERT_EQ(kernel.inputs.size(), 2u);
  EXPECT_THAT(kernel.inputs, ::testing::UnorderedElementsAre(1, 2));
  EXPECT_THAT(kernel.outputs, ::testing::UnorderedElementsAre(0, 1));
  ASSERT_EQ(kernel.params.size(), 2u);
  const bool first = kernel.params[0].raw == 1;
  EXPECT_EQ(kernel.params[first ? 0 : 1].raw, 1);
  EXPECT_EQ(kernel.params[first ? 1 : 0].raw, -1);
  EXPECT_EQ(kernel.params[first ? 1 : 0].bits, 0x40400000u);
}

TEST(Canonicalize, KeepsStructuralLiteralsOnly) {
  const std::string text = Text(
      "dims a\nin 0 f32 [a] dense\n"
      "out 0 f32 [a] dense = pow(add(mul(in0[a], 0x1.8p+3), -1), 0x1p+1)\n");
  EXPECT_THAT(text, HasSubstr("-1"));
  EXPECT_THAT(text, HasSubstr("pow("));
  EXPECT_THAT(text, HasSubstr("0x1p+1)"));
  EXPECT_THAT(text, Not(HasSubstr("0x1.8p+3")));
  EXPECT_EQ(
      Text("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = mul(in0[a], 0x1.8p+3)\n"),
      Text("dims a\nin 0 f32 [a] dense\npar 0 f32\nout 0 f32 [a] dense = mul(par0, in0[a])\n"));
  EXPECT_THAT(Text("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = select(lt(index(a), i64:7), "
                   "in0[a], 0)\n"),
              HasSubstr("i64:7"));
}

TEST(Canonicalize, MergesDimsThatEveryoneUsesAsADensePair) {
  const CanonicalKernel all = Canonical(
      "dims n c h w\nin 0 f32 [n, c, h, w] dense\nout 0 f32 [n, c, h, w] dense = exp(in0[n, c, h, "
      "w])\n");
  EXPECT_THAT(all.dims, ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(Print(all.kernel),
            "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] dense = exp(in0[a])\n");
  const CanonicalKernel bias = Canonical(
      "dims n c h w\nin 0 f32 [n, c, h, w] dense\nin 1 f32 [c] dense\n"
      "out 0 f32 [n, c, h, w] dense = add(in0[n, c, h, w], in1[c])\n");
  EXPECT_THAT(bias.dims, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
  const CanonicalKernel norm = Canonical(
      "dims n c h w\nin 0 f32 [n, c, h, w] dense\ns0 : f32 [c] = reduce add over n h w (in0[n, c, "
      "h, w])\n"
      "out 0 f32 [c] dense = s0[c]\n");
  EXPECT_THAT(norm.dims, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
}

TEST(Canonicalize, LeavesDimsThatSomeoneUsesApart) {
  const auto count = [](const std::string& body) { return Canonical(body).kernel.num_iterated(); };
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] rows\nout 0 f32 [a, b] dense = in0[a, b]\n"), 2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [a, b] strided = in0[a, b]\n"), 2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = in0[b, a]\n"), 2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [b, a] dense = in0[a, b]\n"), 2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [a, b] dense = mul(in0[a, b], "
                  "cast<f32>(index(b)))\n"),
            2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [a, b] dense = mul(in0[a, b], "
                  "cast<f32>(extent(b)))\n"),
            2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [a, b] dense = guard(bool:1, in0[a, "
                  "b-1], 0)\n"),
            2);
  EXPECT_EQ(count("dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (in0[a, "
                  "b])\nout 0 f32 [a] dense = s0[a]\n"),
            2);
  EXPECT_EQ(count("dims a b\nsizes n\nin 0 f32 [a, n] dense\nout 0 f32 [a, b] dense = in0[a, b]\n"),
            2);
}

TEST(Canonicalize, DropsWhatNoOutputNeeds) {
  const CanonicalKernel kernel = Canonical(
      "dims a b\nsizes n\nin 0 f32 [a, b] dense\nin 1 f32 [n] dense\npar 0 f32\n"
      "s0 : f32 [a] = reduce add over b (mul(in0[a, b], par0))\nin 2 f32 [a] dense\nout 0 f32 [a] "
      "dense = exp(in2[a])\n");
  EXPECT_EQ(Print(kernel.kernel),
            "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] dense = exp(in0[a])\n");
  EXPECT_THAT(kernel.inputs, ElementsAre(2));
}

TEST(Canonicalize, ComputesPerRowValuesOncePerRow) {
  const std::string text = Text(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\npar 0 f32\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\n"
      "out 0 f32 [a, b] dense = mul(mul(in0[a, b], in1[b]), rsqrt(add(s0[a], par0)))\n");
  EXPECT_THAT(text, HasSubstr("s1 : f32 [a] = rsqrt(add(s0[a], par0))\n"));
}

std::string LayerNorm(const std::vector<std::string>& names, bool swapped, bool one_expression) {
  const std::string r = names[0];
  const std::string c = names[1];
  const auto add = [&](const std::string& x, const std::string& y) {
    return swapped ? absl::StrCat("add(", y, ", ", x, ")") : absl::StrCat("add(", x, ", ", y, ")");
  };
  const auto mul = [&](const std::string& x, const std::string& y) {
    return swapped ? absl::StrCat("mul(", y, ", ", x, ")") : absl::StrCat("mul(", x, ", ", y, ")");
  };
  const std::string x = absl::StrCat(swapped ? "in2" : "in0", "[", r, ", ", c, "]");
  const std::string scale = absl::StrCat("in1[", c, "]");
  const std::string bias = absl::StrCat(swapped ? "in0" : "in2", "[", c, "]");
  const std::string full = absl::StrCat("[", r, ", ", c, "]");
  const std::string n = absl::StrCat("cast<f32>(extent(", c, "))");
  std::string text =
      absl::StrCat("dims ", r, " ", c, "\nin 0 f32 ", swapped ? absl::StrCat("[", c, "]") : full,
                   " dense\nin 1 f32 [", c, "] dense\nin 2 f32 ",
                   swapped ? full : absl::StrCat("[", c, "]"), " dense\n");
  absl::StrAppend(&text, "s0 : f32 [", r, "] = reduce add over ", c, " (", x, ")\n");
  absl::StrAppend(&text, "s1 : f32 [", r, "] = div(s0[", r, "], ", n, ")\n");
  if (one_expression) {
    const std::string d = absl::StrCat("sub(", x, ", s1[", r, "])");
    absl::StrAppend(&text, "s2 : f32 [", r, "] = reduce add over ", c, " (", mul(d, d), ")\n");
    const std::string inverse =
        absl::StrCat("rsqrt(", add(absl::StrCat("div(s2[", r, "], ", n, ")"), "0x1.4p-17"), ")");
    absl::StrAppend(&text, "out 0 f32 ", full, " dense = ", add(mul(mul(d, inverse), scale), bias),
                    "\n");
    return text;
  }
  absl::StrAppend(&text, "s2 : f32 ", full, " = sub(", x, ", s1[", r, "])\n");
  absl::StrAppend(&text, "s3 : f32 ", full, " = ", mul("s2" + full, "s2" + full), "\n");
  absl::StrAppend(&text, "s4 : f32 [", r, "] = reduce add over ", c, " (s3", full, ")\n");
  absl::StrAppend(&text, "s5 : f32 [", r, "] = div(s4[", r, "], ", n, ")\n");
  absl::StrAppend(&text, "s6 : f32 [", r,
                  "] = ", add(absl::StrCat("s5[", r, "]"), "0x1.0c6f7ap-20"), "\n");
  absl::StrAppend(&text, "s7 : f32 [", r, "] = rsqrt(s6[", r, "])\n");
  absl::StrAppend(&text, "s8 : f32 ", full, " = ", mul("s2" + full, absl::StrCat("s7[", r, "]")),
                  "\n");
  absl::StrAppend(&text, "out 0 f32 ", full, " dense = ", add(mul("s8" + full, scale), bias), "\n");
  return text;
}

// Whichever dim it is that a value lacks: all rows share what a column has one of.
TEST(Canonicalize, ComputesPerColumnValuesOncePerColumn) {
  const std::string text = Text(
      "dims a b\nsizes n0\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\nin 2 f32 [b] dense\n"
      "s0 : f32 [b] = reduce add over a (in0[a, b])\n"
      "out 0 f32 [a, b] dense = mul(sub(in0[a, b], div(s0[b], cast<f32>(extent(n0)))), "
      "mul(in1[b], in2[b]))\n");
  EXPECT_THAT(text, HasSubstr("s1 : f32 [b] = div(s0[b], cast<f32>(extent(n0)))\n"));
  EXPECT_THAT(text, HasSubstr("mul(in1[b], in2[b])"));  // one cheap operation on what is read
  EXPECT_THAT(text, Not(HasSubstr("s2")));
}

TEST(Canonicalize, GivesOneTextForEveryWayToWriteLayerNorm) {
  const std::string want = Text(LayerNorm({"a", "b"}, false, false));
  EXPECT_EQ(Text(LayerNorm({"token", "channel"}, false, true)), want);
  EXPECT_EQ(Text(LayerNorm({"x", "y"}, true, false)), want);
  EXPECT_EQ(Text(LayerNorm({"b", "a"}, true, true)), want);
}

TEST(Canonicalize, GivesOneTextForEveryWayToWriteGelu) {
  const std::string head = "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] strided\n";
  const std::string want = Text(
      head +
      "s0 : f32 [a] = add(in0[a], in1[a])\n"
      "out 0 f32 [a] dense = mul(mul(s0[a], 0x1p-1), add(erf(mul(s0[a], 0x1.6a09e6p-1)), 1))\n");
  EXPECT_EQ(Text(head + "out 0 f32 [a] dense = mul(add(1, erf(mul(0x1.6a09e6p-1, add(in1[a], "
                        "in0[a])))), mul(0x1p-1, add(in0[a], in1[a])))\n"),
            want);
  EXPECT_THAT(
      want, HasSubstr("add(in0[a], in1[a])"));  // one cheap op on leaves: written out, not a stage
}

TEST(Canonicalize, StoresEqualStagesOnce) {
  const std::string text = Text(
      "dims a b\nin 0 f32 [a, b] dense\n"
      "s0 : f32 [a] = reduce add over b (exp(in0[a, b]))\ns1 : f32 [a] = reduce add over b "
      "(exp(in0[a, b]))\n"
      "out 0 f32 [a] dense = div(s0[a], s1[a])\n");
  EXPECT_THAT(text, HasSubstr("div(s0[a], s0[a])"));
  EXPECT_THAT(text, Not(HasSubstr("s1")));
}

TEST(Canonicalize, KeepsAMapThatIsReadElsewhere) {
  const std::string text = Text(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a, b] = exp(in0[a, b])\n"
      "out 0 f32 [a, b] dense = add(s0[a, b], guard(lt(i64:0, index(b)), s0[a, b-1], 0))\n");
  EXPECT_THAT(text, HasSubstr("s0 : f32 [a, b] = exp(in0[a, b])\n"));
  EXPECT_THAT(text, HasSubstr("s0[a, b-1]"));
}

TEST(Canonicalize, NeverMovesAReadOutOfItsGuard) {
  // The shared exp would be a stage, but its read lies outside in0 where the guard is false.
  const std::string text = Text(
      "dims a\nsizes n\nin 0 f32 [n] dense\n"
      "out 0 f32 [a] dense = guard(le(i64:0, index(a)), mul(exp(in0[a-2]), exp(in0[a-2])), 0)\n");
  EXPECT_THAT(text, HasSubstr("mul(exp(in0[a-2]), exp(in0[a-2]))"));
  const std::string open = Text(
      "dims a\nsizes n\nin 0 f32 [n] dense\nout 0 f32 [a] dense = mul(exp(in0[a+2]), "
      "exp(in0[a+2]))\n");
  EXPECT_THAT(open, HasSubstr("s0 : f32 [a] = exp(in0[a+2])"));
}

TEST(Canonicalize, CutsDeepChainsAndSharedDags) {
  for (const bool share : {false, true}) {
    Kernel kernel;
    kernel.dims.push_back({"x", true});
    kernel.inputs.push_back({DType::kF32, {0}, Layout::kDense});
    KernelOutput output;
    output.dims = {0};
    Ex x = Read(output.expr, DType::kF32, ReadSource::kInput, 0, {IndexExpr::Dim(0)});
    for (int i = 0; i < 2000; ++i)
      x = share ? Apply(ScalarOp::kExp, x + x) : Apply(ScalarOp::kExp, x);
    output.expr.set_root(x.id);
    kernel.outputs.push_back(output);
    const auto canonical = Canonicalize(kernel);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const std::string text = Print(canonical->kernel);
    EXPECT_LT(text.size(), 200000u);
    EXPECT_TRUE(ParseKernel(text).ok());
  }
}

TEST(Canonicalize, DoesNotDependOnNamesOrUnusedDims) {
  EXPECT_EQ(
      Text("dims q unused r\nin 0 f32 [q, r] dense\nout 0 f32 [q, r] dense = neg(in0[q, r])\n"),
      Text("dims a\nin 0 f32 [a] strided\nin 1 f32 [a] rows\nout 0 f32 [a] dense = neg(in1[a])\n"));
}

TEST(Canonicalize, NumbersSizesByFirstUse) {
  const std::string text = Text(
      "dims a\nsizes p q\nin 0 f32 [q] dense\nin 1 f32 [p] dense\nout 0 f32 [a] dense = "
      "sub(in0[a], in1[|q|-1-a])\n");
  EXPECT_EQ(text,
            "kernel v1 math 1\ndims a\nsizes n0 n1\nin   0 f32 [n0] dense\nin   1 f32 [n1] dense\n"
            "out  0 f32 [a] dense = sub(in0[a], in1[-a+|n0|-1])\n");
}

constexpr char kGroups[] =
    "dims n g c p\nin 0 f32 [n, g, c, p] dense\nin 1 f32 [g, c] dense\n"
    "s0 : f32 [n, g] = reduce add over c p (in0[n, g, c, p])\n"
    "out 0 f32 [n, g, c, p] dense = mul(sub(in0[n, g, c, p], s0[n, g]), in1[g, c])\n";

TEST(Canonicalize, WhatIsReducedTogetherIsOneRowIfTheRestCanBeReadAtQuotients) {
  const CanonicalKernel groups = Canonical(kGroups, {0, 8, 3, 20});
  EXPECT_EQ(Print(groups.kernel),
            "kernel v1 math 1\ndims a b c\nsizes n0\nin   0 f32 [a, b, c] dense\n"
            "in   1 f32 [b, n0] dense\ns0 : f32 [a, b] = reduce add over c (in0[a, b, c])\n"
            "out  0 f32 [a, b, c] dense = mul(sub(in0[a, b, c], s0[a, b]), in1[b, c/20])\n");
  EXPECT_THAT(groups.dims,
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3), ElementsAre(2)));
}

TEST(Canonicalize, RowsStayApartWhereQuotientsAreUnknown) {
  const std::string apart = Text(kGroups);
  EXPECT_THAT(apart, HasSubstr("reduce add over c d"));
  EXPECT_EQ(Text(kGroups, {0, 8, 3, 0}), apart);          // elements of a channel not known
  EXPECT_EQ(Text(kGroups, {0, 8, 3, 1LL << 32}), apart);  // or too many
  // However many elements, and whatever else is known.
  for (const int64_t elements : {2, 20, 48, 97, 4096, 1 << 30}) {
    const std::string one = absl::StrCat("in1[b, c/", elements, "]");
    EXPECT_THAT(Text(kGroups, {0, 300, 3, elements}), HasSubstr(one));
    EXPECT_EQ(Text(kGroups, {0, 0, 0, elements}), Text(kGroups, {0, 300, 3, elements}));
  }
  // Another use of the channel's number.
  const std::string index = absl::StrReplaceAll(kGroups, {{"in1[g, c])", "cast<f32>(index(c)))"}});
  EXPECT_EQ(Text(index, {0, 8, 3, 20}), Text(index));
  // Read along the elements of a channel too; no reduction of both.
  const std::string other = absl::StrReplaceAll(kGroups, {{"[g, c]", "[g, p]"}});
  EXPECT_EQ(Text(other, {0, 8, 3, 20}), Text(other));
  const std::string half = absl::StrReplaceAll(
      kGroups, {{"s0 : f32 [n, g] = reduce add over c p", "s0 : f32 [n, g, c] = reduce add over p"},
                {"s0[n, g]", "s0[n, g, c]"}});
  EXPECT_EQ(Text(half, {0, 8, 3, 20}), Text(half));
}

}  // namespace
}  // namespace kiln
