// SPDX-License-Identifier: Apache-2.0
#include "kernel/text.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

constexpr char kSoftmax[] =
    "kernel v1 math 1\n"
    "dims a b\n"
    "in   0 f32 [a, b] dense\n"
    "in   1 f32 [b] dense\n"
    "par  0 f32\n"
    "s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])\n"
    "s1 : f32 [a]    = reduce max over b (s0[a, b])\n"
    "s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))\n"
    "s3 : f32 [a]    = reduce add over b (s2[a, b])\n"
    "out  0 f32 [a, b] dense = div(s2[a, b], s3[a])\n";

std::string Error(const std::string& text) {
  const auto kernel = ParseKernel(text);
  return kernel.ok() ? "" : std::string(kernel.status().message());
}

// The text of a kernel whose only output is `expr`, over in0 f32 [a, b], in1 i32 [n], par0 f32,
// par1 f64.
std::string WithOutput(const std::string& expr, const std::string& type = "f32") {
  return "kernel v1 math 1\ndims a b\nsizes n\nin 0 f32 [a, b] dense\nin 1 i32 [n] strided\npar 0 "
         "f32\npar 1 f64\nout 0 " +
         type + " [a, b] rows = " + expr + "\n";
}

std::string ReprintOutput(const std::string& expr, const std::string& type = "f32") {
  const auto kernel = ParseKernel(WithOutput(expr, type));
  if (!kernel.ok()) return std::string(kernel.status().message());
  const std::string text = Print(*kernel);
  const auto again = ParseKernel(text);
  if (!again.ok() || Print(*again) != text) return "does not round-trip: " + text;
  const size_t at = text.rfind(" = ");
  return text.substr(at + 3, text.size() - at - 4);
}

TEST(KernelText, PrintsTheDocumentedExampleBack) {
  const auto kernel = ParseKernel(kSoftmax);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(Print(*kernel), kSoftmax);
}

TEST(KernelText, IgnoresCommentsAndBlanks) {
  std::string text = "# softmax\n\n";
  for (const char c : std::string(kSoftmax))
    text += c == ',' ? " ,  " : c == '\n' ? "   # end\n" : std::string(1, c);
  const auto kernel = ParseKernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(Print(*kernel), kSoftmax);
}

TEST(KernelText, KeepsEveryLiteralBit) {
  for (const char* literal : {"0", "-0", "1", "-1", "0x1.8p+1", "inf", "-inf", "nan",
                              "0x0.000002p-126", "-0x1.fffffep+127"}) {
    EXPECT_EQ(ReprintOutput(literal), literal);
  }
  EXPECT_EQ(ReprintOutput("0.5"), "0x1p-1");
  EXPECT_EQ(ReprintOutput("0x1p-149"), "0x0.000002p-126");
  EXPECT_EQ(ReprintOutput("f64:0x1.0000000000001p-1022", "f64"), "f64:0x1.0000000000001p-1022");
  EXPECT_EQ(ReprintOutput("i64:-9223372036854775808", "i64"), "i64:-9223372036854775808");
  EXPECT_EQ(ReprintOutput("u64:18446744073709551615", "u64"), "u64:18446744073709551615");
  EXPECT_EQ(ReprintOutput("bool:1", "bool"), "bool:1");
}

TEST(KernelText, KeepsEveryIndexForm) {
  for (const char* index : {"a", "2*a+b-1", "a/4", "a%4", "(a/4)%3", "(a+b)/4", "((2*a-3)/4)%5",
                            "a-|n|", "-a-3*b+2*|n|", "7", "[in1[[in1[a]]]]", "-1"}) {
    const std::string expr = std::string("in0[") + index + ", b]";
    EXPECT_EQ(ReprintOutput(expr), expr);
  }
  EXPECT_EQ(ReprintOutput("in0[b+a+1-b+a, b]"), "in0[2*a+1, b]");
  EXPECT_EQ(ReprintOutput("in0[a-a, b]"), "in0[0, b]");
}

TEST(KernelText, KeepsCastsAndChoices) {
  for (const char* expr :
       {"cast<f32>(index(a))", "bitcast<f32>(cast<i32>(extent(n)))", "roundto<bf16>(par0)",
        "guard(le(i64:0, index(a)), in0[a, b], 0)", "fma(par0, in0[a, b], cast<f32>(par1))",
        "select(isnan(par0), 0, cast<f32>(par0))"}) {
    EXPECT_EQ(ReprintOutput(expr), expr);
  }
}

TEST(KernelText, StoresSixteenBitFloatsOfF32Expressions) {
  EXPECT_EQ(ReprintOutput("par0", "bf16"), "par0");
}

TEST(KernelText, NamesLineAndColumnOfASyntaxError) {
  EXPECT_THAT(Error(WithOutput("add(par0 par0)")),
              HasSubstr("line 8, column 34: expected \",\", found \"p\""));
  EXPECT_THAT(Error(WithOutput("frob(par0)")), HasSubstr("\"frob\" is no operation"));
  EXPECT_THAT(Error(WithOutput("in7[a]")), HasSubstr("in7 is not declared above; only 2 are"));
  EXPECT_THAT(Error(WithOutput("par0 par0")), HasSubstr("unexpected \"par0\""));
  EXPECT_THAT(Error(WithOutput("i32:99999999999", "i32")), HasSubstr("does not fit i32"));
  EXPECT_THAT(Error(WithOutput("in0[a/0, b]")), HasSubstr("divisor 0"));
  EXPECT_THAT(Error("dims a\n"), HasSubstr("line 1, column 1: no \"kernel v1 math N\" before it"));
  EXPECT_THAT(Error(""), HasSubstr("the text is empty"));
}

TEST(KernelText, RefusesDeepNestingWithoutRecursingIntoIt) {
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "neg(";
  EXPECT_THAT(Error(WithOutput(deep)), HasSubstr("nested deeper than 500"));
  EXPECT_THAT(Error(WithOutput("in0[" + std::string(100000, '(') + "a, b]")),
              HasSubstr("too many parentheses"));
  std::string fine = "par0";
  for (int i = 0; i < 499; ++i) fine = "neg(" + fine + ")";
  EXPECT_EQ(ReprintOutput(fine), fine);
}

TEST(KernelText, CutsTheTextOfSharedNodesThatWouldExplode) {
  Kernel kernel;
  kernel.params.push_back(DType::kF32);
  KernelOutput output;
  Ex x = Param(output.expr, DType::kF32, 0);
  for (int i = 0; i < 64; ++i) x = x + x;
  output.expr.set_root(x.id);
  kernel.outputs.push_back(output);
  ASSERT_TRUE(Verify(kernel).ok());
  const std::string text = Print(kernel);
  EXPECT_LT(text.size(), size_t{3} << 20);
  EXPECT_THAT(text, HasSubstr("<cut>"));
}

TEST(KernelText, SurvivesEveryOneByteChange) {
  const std::string text = kSoftmax;
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'(', ')', ',', '9', 'a', '\n', ' ', '\0', '[', '-'}) {
      std::string changed = text;
      changed[i] = c;
      const auto kernel = ParseKernel(changed);
      if (!kernel.ok()) continue;
      const auto again = ParseKernel(Print(*kernel));
      ASSERT_TRUE(again.ok()) << changed << again.status();
      EXPECT_EQ(Print(*again), Print(*kernel));
    }
    (void)ParseKernel(text.substr(0, i));
  }
}

}  // namespace
}  // namespace kiln
