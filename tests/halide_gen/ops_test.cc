// SPDX-License-Identifier: Apache-2.0
// Every primitive on every type it takes, against EvalKernel, bit by bit.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "kernel/math.h"
#include "tests/halide_gen/harness.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

constexpr const char* kFloats[] = {"f32", "f64", "f16", "bf16"};
constexpr const char* kInts[] = {"i8", "i32", "i64", "u8", "u32", "u64"};

// A kernel with several outputs, one per expression over a, b, c = in0[a], in1[a], in2[a] of
// `type`.
std::string ElementwiseText(const std::string& type,
                            const std::vector<std::pair<std::string, std::string>>& outputs) {
  std::string text = "kernel v1 math 1\ndims a\n";
  for (int i = 0; i < 3; ++i) absl::StrAppend(&text, "in ", i, " ", type, " [a] dense\n");
  for (size_t i = 0; i < outputs.size(); ++i) {
    absl::StrAppend(&text, "out ", i, " ", outputs[i].first, " [a] dense = ", outputs[i].second,
                    "\n");
  }
  return text;
}

class OpsTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  void CheckAll(const std::string& text) {
    CompiledKernel kernel(text, GetParam());
    for (uint32_t seed = 0; seed < 4; ++seed) kernel.Check({1000}, seed);
    kernel.Check({5}, 9);
  }
};

TEST_P(OpsTest, FloatArithmetic) {
  for (const std::string type : kFloats) {
    std::vector<std::pair<std::string, std::string>> outputs;
    for (const char* op : {"add", "sub", "mul", "div", "min", "max"}) {
      outputs.emplace_back(type, absl::StrCat(op, "(in0[a], in1[a])"));
    }
    for (const char* op : {"neg", "abs", "sign", "sqrt", "floor", "ceil", "round", "trunc"}) {
      outputs.emplace_back(type, absl::StrCat(op, "(in0[a])"));
    }
    outputs.emplace_back(type, "fma(in0[a], in1[a], in2[a])");
    outputs.emplace_back(type, "sub(in0[a], in0[a])");
    outputs.emplace_back(type, "div(in0[a], in0[a])");
    CheckAll(ElementwiseText(type, outputs));
  }
}

TEST_P(OpsTest, FloatComparisons) {
  for (const std::string type : kFloats) {
    std::vector<std::pair<std::string, std::string>> outputs;
    for (const char* op : {"eq", "ne", "lt", "le"})
      outputs.emplace_back("bool", absl::StrCat(op, "(in0[a], in1[a])"));
    outputs.emplace_back("bool", "isnan(in0[a])");
    outputs.emplace_back("bool", "ne(in0[a], in0[a])");
    outputs.emplace_back("bool", "not(lt(in0[a], in1[a]))");
    outputs.emplace_back(
        "bool",
        "xor(lt(in0[a], in1[a]), and(le(in1[a], in2[a]), or(isnan(in2[a]), eq(in0[a], in0[a]))))");
    outputs.emplace_back(type, "select(lt(in0[a], in1[a]), in2[a], neg(in2[a]))");
    CheckAll(ElementwiseText(type, outputs));
  }
}

TEST_P(OpsTest, IntegerArithmetic) {
  for (const std::string type : kInts) {
    std::vector<std::pair<std::string, std::string>> outputs;
    for (const char* op :
         {"add", "sub", "mul", "div", "mod", "min", "max", "and", "or", "xor", "shl", "shr"}) {
      outputs.emplace_back(type, absl::StrCat(op, "(in0[a], in1[a])"));
    }
    for (const char* op : {"neg", "abs", "sign", "not"})
      outputs.emplace_back(type, absl::StrCat(op, "(in0[a])"));
    for (const char* op : {"eq", "ne", "lt", "le"})
      outputs.emplace_back("bool", absl::StrCat(op, "(in0[a], in1[a])"));
    CheckAll(ElementwiseText(type, outputs));
  }
}

TEST_P(OpsTest, CastsBetweenAllTypes) {
  for (const std::string from : {"f32", "f64", "i8", "i32", "i64", "u16", "u64", "bool"}) {
    std::vector<std::pair<std::string, std::string>> outputs;
    for (const std::string to :
         {"f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}) {
      outputs.emplace_back(to, absl::StrCat("cast<", to, ">(in0[a])"));
    }
    CheckAll(ElementwiseText(from, outputs));
  }
}

TEST_P(OpsTest, RoundingToSixteenBits) {
  CheckAll(ElementwiseText("f32", {{"f32", "roundto<f16>(in0[a])"},
                                   {"f32", "roundto<bf16>(in0[a])"},
                                   {"f16", "in0[a]"},
                                   {"bf16", "in0[a]"},
                                   {"f32", "add(roundto<f16>(in0[a]), roundto<bf16>(in1[a]))"}}));
}

TEST_P(OpsTest, BitcastsAndLiterals) {
  CheckAll(
      ElementwiseText("f32", {{"i32", "bitcast<i32>(in0[a])"},
                              {"u32", "shl(bitcast<u32>(in0[a]), u32:3)"},
                              {"f32", "bitcast<f32>(xor(bitcast<i32>(in0[a]), i32:-2147483648))"},
                              {"f32", "add(in0[a], -0)"},
                              {"f32", "mul(in0[a], 0)"},
                              {"f32", "sub(0, in0[a])"},
                              {"f32", "div(in0[a], 0)"},
                              {"f32", "div(in0[a], -0)"},
                              {"f32", "add(in0[a], 0)"},
                              {"f32", "mul(in0[a], 1)"},
                              {"f32", "max(in0[a], inf)"},
                              {"f32", "min(in0[a], -inf)"},
                              {"f32", "select(bool:1, in0[a], nan)"},
                              {"f32", "add(0x1.8p+1, div(1, in0[a]))"}}));
}

TEST_P(OpsTest, DividesByWhatIsFoundToBeZero) {
  CheckAll(ElementwiseText(
      "f32", {{"f32", "div(in0[a], cast<f32>(sub(cast<i32>(in0[a]), cast<i32>(in0[a]))))"},
              {"f64", "div(cast<f64>(in0[a]), cast<f64>(mod(cast<i32>(in0[a]), i32:-1)))"},
              {"f32", "rsqrt(cast<f32>(mul(cast<i32>(in0[a]), i32:0)))"},
              {"f32", "div(in0[a], in1[a])"}}));
}

// Stages that are read only by what folds away, beside others of the same input; this ended the
// compiler.
TEST_P(OpsTest, StagesWhoseReadsVanish) {
  for (const char* value :
       {"cast<i32>(eq(s0[a, b], s0[a, b]))", "sub(s0[a, b], s0[a, b])", "and(s0[a, b], i32:0)",
        "mul(s0[a, b], i32:0)", "cast<i32>(lt(s0[a, b], s0[a, b]))", "xor(s0[a, b], s0[a, b])"}) {
    const std::string text = absl::StrCat(
        "kernel v1 math 1\ndims a b\nsizes n0\nin   0 f32 [a, b] dense\n"
        "s0 : i32 [a, b] = cast<i32>(cosh(in0[a, b]))\n"
        "s1 : f32 [a]    = reduce add over b (in0[a, b])\n"
        "out  0 i32 [a, b] dense = ",
        value,
        "\nout  1 f32 [a, b] dense = abs(in0[a, b])\n"
        "out  2 f32 [a] dense = div(s1[a], cast<f32>(extent(n0)))\n");
    CompiledKernel rows(text, GetParam());
    CompiledKernel unrolled(text, GetParam(), "", {{kUnbounded, 4, 4}});
    for (CompiledKernel* kernel : {&rows, &unrolled}) {
      ASSERT_TRUE(kernel->ok()) << text;
      kernel->Check({41, 4, 4}, 7);
    }
    EXPECT_EQ(FieldOf(unrolled.schedule(), "inner", 0), 4);
  }
}

// x - x is no 0 and x == x not true where x is a stage that holds a NaN.
TEST_P(OpsTest, ReadsOfFloatsDoNotVanish) {
  CompiledKernel kernel(
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
      "s0 : f32 [a]    = reduce add over b (in0[a, b])\n"
      "out  0 bool [a, b] dense = eq(s0[a], s0[a])\n"
      "out  1 f32 [a, b] dense = sub(s0[a], s0[a])\n"
      "out  2 f32 [a, b] dense = mul(s0[a], 0)\n",
      GetParam());
  ASSERT_TRUE(kernel.ok());
  kernel.Check({7, 19}, 7);
}

// In the tail of a row, whose loads are masked, Halide drops conditions that its bounds decide; to
// those x - x and x * 0 are 0.
TEST_P(OpsTest, ConditionsOfNanStayInTails) {
  for (const char* zero : {"sub(in0[a], in0[a])", "mul(in0[a], 0)", "min(mul(in0[a], 0), 1)"}) {
    for (const char* value : {"min($0, in1[a, b])", "max(in1[a, b], $0)",
                              "select(and(lt(in1[a, b], 1), lt($0, 5)), in1[a, b], 2)",
                              "select(and(lt($0, 5), lt(in1[a, b], 1)), in1[a, b], 2)",
                              "select(or(lt(in1[a, b], 1), le(0, $0)), 3, in1[a, b])",
                              "select(or(eq($0, 0), lt(in1[a, b], 1)), 3, in1[a, b])"}) {
      const std::string text = absl::StrCat(
          "kernel v1 math 1\ndims a b\nin   0 f32 [a] dense\n"
          "in   1 f32 [a, b] dense\nout  0 f32 [a, b] dense = ",
          absl::Substitute(value, zero), "\n");
      CompiledKernel kernel(text, GetParam());
      ASSERT_TRUE(kernel.ok()) << text;
      for (uint32_t seed = 0; seed < 4; ++seed) kernel.Check({64, 19}, seed);
    }
  }
}

// A few functions together; bench/ulp runs every one.
TEST_P(OpsTest, Functions) {
  for (const auto& [type, count] : {std::pair("f32", 8u), {"f64", 4u}}) {
    std::vector<std::pair<std::string, std::string>> outputs;
    for (int op = 0; op < kNumScalarOps && outputs.size() < count; ++op) {
      const ScalarOpInfo& info = Info(static_cast<ScalarOp>(op));
      if (!info.function) continue;
      outputs.emplace_back(
          type, absl::StrCat(info.name, info.arity == 2 ? "(in0[a], in1[a])" : "(in0[a])"));
    }
    CheckAll(ElementwiseText(type, outputs));
  }
}

// Literals that stay in the text make chains of numbers that no element decides.
TEST_P(OpsTest, FunctionsOfLiterals) {
  for (const std::string type : {"f32", "f64"}) {
    for (const std::string number : {"inf", "nan", "0"}) {
      const std::string literal = type == "f32" ? number : absl::StrCat(type, ":", number);
      std::vector<std::pair<std::string, std::string>> outputs;
      for (int op = 0; op < kNumScalarOps; ++op) {
        const ScalarOpInfo& info = Info(static_cast<ScalarOp>(op));
        if (info.function && info.arity == 2 &&
            HasExpansion(static_cast<ScalarOp>(op), DType::kF32))
          outputs.emplace_back(type, absl::StrCat(info.name, "(in0[a], ", literal, ")"));
      }
      CheckAll(ElementwiseText(type, outputs));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, OpsTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) {
                           return info.param == IsaLevel::kV3 ? "V3" : "V4";
                         });

}  // namespace
}  // namespace kiln
