// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/vm.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "exec/support/launch.h"
#include "exec/vm/program.h"
#include "gtest/gtest.h"
#include "kernel/text.h"
#include "tests/exec_vm/vm_harness.h"

namespace kiln {
namespace {

Kernel Parse(const std::string& text) {
  auto kernel = ParseKernel("kernel v1 math 1\n" + text);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : Kernel{};
}

void ExpectExact(const std::string& text, const std::vector<std::vector<int64_t>>& cases) {
  const Kernel kernel = Parse(text);
  uint32_t seed = 1;
  for (const std::vector<int64_t>& extents : cases)
    EXPECT_EQ(CompareEverywhere(kernel, extents, ++seed), "") << text;
}

constexpr char kSoftmax[] = R"(
dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
par  0 f32
s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])
s1 : f32 [a]    = reduce max over b (s0[a, b])
s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))
s3 : f32 [a]    = reduce add over b (s2[a, b])
out  0 f32 [a, b] dense = div(s2[a, b], s3[a])
)";

TEST(VmTest, AddsByHand) {
  const Kernel kernel = Parse(
      "dims a\nin 0 f32 [a] dense\npar 0 f32\nout 0 f32 [a] dense = max(add(in0[a], par0), 0)");
  Operands operands;
  operands.inputs.push_back(MakeBuffer(DType::kF32, {5}, Layout::kDense));
  operands.outputs.push_back(MakeBuffer(DType::kF32, {5}, Layout::kDense));
  const float in[] = {1, -3, NAN, -INFINITY, 0.5};
  std::memcpy(operands.inputs[0].data(), in, sizeof(in));
  operands.extents = {5};
  operands.params = {ConstBits(DType::kF32, 2)};
  ASSERT_EQ(RunInVm(kernel, {{5}, 1, HostIsa(), 1}, operands), 0);
  const auto* out = static_cast<const float*>(operands.outputs[0].data());
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 0);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 0);
  EXPECT_EQ(out[4], 2.5);
}

TEST(VmTest, SoftmaxHasThreePasses) {
  const auto vm = VmKernel::Compile(Parse(kSoftmax));
  ASSERT_TRUE(vm.ok()) << vm.status();
  EXPECT_EQ((*vm)->program().prefix, 1);
  EXPECT_EQ((*vm)->program().passes.size(), 3u);
  EXPECT_EQ((*vm)->program().temps.size(), 3u);
}

TEST(VmTest, ShortRowsShareBlocks) {
  const auto vm = VmKernel::Compile(Parse(kSoftmax));
  ASSERT_TRUE(vm.ok()) << vm.status();
  ASSERT_NE((*vm)->wide(), nullptr);
  EXPECT_EQ((*vm)->wide()->prefix, 0);
  EXPECT_EQ((*vm)->wide()->group, 0);
  ExpectExact(kSoftmax, {{1000, 1},
                         {4099, 2},
                         {701, 13},
                         {512, 16},
                         {300, 17},
                         {97, 100},
                         {8, 170},
                         {50, 331},
                         {7, 341},
                         {9, 342},
                         {11, 511},
                         {5, 512},
                         {3, 513}});
}

TEST(VmTest, VectorsHaveNoRowsToShare) {
  const auto vm =
      VmKernel::Compile(Parse("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])"));
  ASSERT_TRUE(vm.ok()) << vm.status();
  EXPECT_EQ((*vm)->wide(), nullptr);
}

TEST(VmTest, BlocksOverSeveralDimsKeepToTheirOperands) {
  // Pieces of rows, one element of an axis, and an axis of the outer dim that ends early.
  ExpectExact(R"(
dims a b c
sizes n0 n1
in   0 f32 [n1, b, c] dense
in   1 f32 [b] dense
out  0 f32 [a, b, c] dense = guard(and(lt(index(a), extent(n1)), lt(index(c), extent(n0))), mul(in0[a, b, c], in1[b]), in0[[i64:-1], b, [i64:1]])
)",
              {{40, 3, 2, 1, 33},
               {9, 5, 7, 3, 2},
               {200, 1, 13, 13, 200},
               {3, 31, 16, 15, 1},
               {9, 30, 17, 11, 7}});
}

TEST(VmTest, NeighboursArePickedOutOfWindows) {
  // Pairs and triples taken apart and put together, each element of a row several times.
  ExpectExact(R"(
dims a b c
sizes n0
in   0 f32 [a, b, n0] dense
in   1 f32 [b] dense
out  0 f32 [a, b, c] dense = select(lt(index(c), i64:1), mul(in0[a, b, [i64:0]], in1[b]), sub(in0[a, b, [i64:-1]], in1[b]))
)",
              {{3, 100, 2, 2}, {2, 700, 3, 5}, {70, 3, 4, 3}, {1, 33, 7, 40}, {5, 2, 170, 2}});
}

TEST(VmTest, WhatVariesAlongARowAloneIsRightInEachRow) {
  ExpectExact(R"(
dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
s0 : f32 [a] = reduce max over b (sub(in0[a, b], in1[b]))
out  0 f32 [a, b] dense = select(lt(index(b), i64:300), add(in0[a, b], in1[b]), mul(s0[a], exp(in1[b])))
out  1 f32 [a, b] dense = in1[b]
)",
              {{1, 700}, {5, 4099}, {40, 513}, {300, 16}, {77, 13}, {0, 5}});
}

TEST(VmTest, ComparedAndChosenInOneStep) {
  ExpectExact(R"(
dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
par  0 f32
out  0 f32 [a] dense = div(min(select(le(in0[a], par0), in1[a], 0x1p-1), max(sub(par0, in1[a]), in0[a])), select(lt(par0, in0[a]), par0, in1[a]))
out  1 i32 [a] dense = select(lt(in1[a], in0[a]), bitcast<i32>(in0[a]), bitcast<i32>(add(in1[a], in1[a])))
)",
              {{1}, {15}, {513}, {5000}});
}

TEST(VmTest, Softmax) {
  ExpectExact(kSoftmax, {{3, 1},
                         {2, 7},
                         {5, 64},
                         {33, 100},
                         {1, 5000},
                         {2, 4097},
                         {1, 8192},
                         {40, 513},
                         {0, 4},
                         {300, 17}});
}

TEST(VmTest, LayerNorm) {
  ExpectExact(R"(
dims a b
in 0 f32 [a, b] dense
in 1 f32 [b] dense
par 0 f32
s0 : f32 [a] = reduce add over b (in0[a, b])
s1 : f32 [a] = div(s0[a], cast<f32>(extent(b)))
s2 : f32 [a] = reduce add over b (mul(sub(in0[a, b], s1[a]), sub(in0[a, b], s1[a])))
s3 : f32 [a] = div(1, sqrt(add(div(s2[a], cast<f32>(extent(b))), par0)))
out 0 f32 [a, b] dense = mul(mul(sub(in0[a, b], s1[a]), s3[a]), in1[b])
)",
              {{1, 1}, {4, 768}, {3, 5000}, {64, 65}, {31, 331}, {6, 512}});
}

TEST(VmTest, ChainsOfAnyLength) {
  ExpectExact(R"(
dims a
in 0 f32 [a] dense
in 1 f32 [a] dense
out 0 f32 [a] dense = sub(mul(max(add(mul(in0[a], in1[a]), in0[a]), 0), in1[a]), fma(in0[a], in1[a], abs(in0[a])))
out 1 f32 [a] dense = select(lt(in0[a], in1[a]), floor(in0[a]), neg(round(in1[a])))
)",
              {{0}, {1}, {15}, {16}, {17}, {511}, {512}, {513}, {4096}, {4097}, {20000}});
}

TEST(VmTest, Functions) {
  for (const char* f : {"exp", "log", "tanh", "erf", "sigmoid", "rsqrt"}) {
    ExpectExact("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = " + std::string(f) + "(in0[a])",
                {{2000}});
  }
}

TEST(VmTest, ReducesOuterDims) {
  for (const char* op : {"add", "mul", "max", "min"}) {
    const std::string reduce = "reduce " + std::string(op);
    ExpectExact("dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = " + reduce +
                    " over a (in0[a, b])\nout 0 f32 [b] dense = s0[b]",
                {{1, 1}, {511, 3}, {512, 2}, {1025, 5}, {30, 600}, {0, 3}});
    ExpectExact("dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [] = " + reduce +
                    " over a b (in0[a, b])\nout 0 f32 [] dense = s0[]",
                {{1, 1}, {7, 5000}, {1100, 3}, {0, 3}, {3, 0}});
    ExpectExact("dims a b c\nin 0 f32 [a, b, c] rows\ns0 : f32 [a, c] = " + reduce +
                    " over b (in0[a, b, c])\nout 0 f32 [a, c] rows = s0[a, c]",
                {{3, 70, 5}, {2, 600, 20}, {2, 0, 4}});
    ExpectExact(
        "dims a b c\nin 0 f32 [a, b, c] strided\ns0 : f32 [b] = " + reduce +
            " over a c (in0[a, b, c])\nout 0 f32 [a, b, c] strided = sub(in0[a, b, c], s0[b])",
        {{3, 4, 50}, {600, 2, 3}});
  }
}

TEST(VmTest, LongReductionsFoldTheirBlocks) {
  ExpectExact(
      "dims a\nin 0 f32 [a] dense\ns0 : f32 [] = reduce add over a (in0[a])\ns1 : f32 [] = reduce "
      "max over a (in0[a])\nout 0 f32 [] dense = s0[]\nout 1 f32 [] dense = s1[]",
      {{4096}, {4097}, {100000}, {270000}, {0}});
}

TEST(VmTest, ReducesEveryType) {
  for (const char* type : {"f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    for (const char* op : {"add", "mul", "max", "min"}) {
      const std::string t = type;
      ExpectExact("dims a b\nin 0 " + t + " [a, b] dense\ns0 : " + t + " [a] = reduce " + op +
                      " over b (in0[a, b])\ns1 : " + t + " [b] = reduce " + op +
                      " over a (in0[a, b])\nout 0 " + t + " [a] dense = s0[a]\nout 1 " + t +
                      " [b] dense = s1[b]",
                  {{3, 200}});
    }
  }
  for (const char* op : {"and", "or"}) {
    ExpectExact("dims a b\nin 0 bool [a, b] dense\ns0 : bool [a] = reduce " + std::string(op) +
                    " over b (in0[a, b])\nout 0 bool [a] dense = s0[a]",
                {{9, 3}, {2, 70}, {2, 0}});
  }
}

TEST(VmTest, ArithmeticOfEveryType) {
  for (const char* type : {"f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    const std::string t = type;
    const std::string head = "dims a\nin 0 " + t + " [a] dense\nin 1 " + t + " [a] dense\n";
    for (const char* e :
         {"add(in0[a], in1[a])", "sub(in0[a], in1[a])", "mul(in0[a], in1[a])",
          "div(in0[a], in1[a])", "min(in0[a], in1[a])", "max(in0[a], in1[a])", "neg(in0[a])",
          "abs(in0[a])", "sign(in0[a])", "select(le(in0[a], in1[a]), in1[a], in0[a])"}) {
      ExpectExact(head + "out 0 " + t + " [a] dense = " + e, {{300}});
    }
    if (t == "f64") {
      ExpectExact(head + "out 0 f64 [a] dense = fma(in0[a], in1[a], in0[a])", {{300}});
      continue;
    }
    for (const char* e :
         {"mod(in0[a], in1[a])", "and(in0[a], in1[a])", "or(in0[a], in1[a])", "xor(in0[a], in1[a])",
          "not(in0[a])", "shl(in0[a], in1[a])", "shr(in0[a], in1[a])"}) {
      ExpectExact(head + "out 0 " + t + " [a] dense = " + e, {{300}});
    }
  }
  for (const char* e : {"sqrt", "floor", "ceil", "round", "trunc", "sign", "abs", "neg"}) {
    ExpectExact("dims a\nin 0 f64 [a] dense\nin 1 f32 [a] dense\nout 0 f64 [a] dense = " +
                    std::string(e) + "(in0[a])\nout 1 f32 [a] dense = " + e + "(in1[a])",
                {{300}});
  }
}

TEST(VmTest, CastsBetweenAllTypes) {
  const std::vector<std::string> types = {"f32", "f64", "i8",  "i16", "i32", "i64",
                                          "u8",  "u16", "u32", "u64", "bool"};
  for (const std::string& from : types) {
    for (const std::string& to : types) {
      if (from == to) continue;
      const Kernel kernel = Parse("dims a\nin 0 " + from + " [a] dense\nout 0 " + to +
                                  " [a] dense = cast<" + to + ">(in0[a])");
      EXPECT_EQ(CompareWithNaive(kernel, {{500}, 1, HostIsa(), 3}), "") << from << " to " << to;
    }
  }
}

// Each value is read by some that come much later, so that most wait in slots; and there are more
// operations than one strip has.
TEST(VmTest, LongChains) {
  std::string text = "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] rows\n";
  const auto value = [](int k) {
    return k < 0 ? "in" + std::to_string(k % 2 + 1) + "[a]" : "s" + std::to_string(k) + "[a]";
  };
  constexpr int kStages = 120;
  for (int k = 0; k < kStages; ++k) {
    const std::string x = value(k - 1), y = value(k - 4), z = value(k - 11);
    text += "s" + std::to_string(k) + " : f32 [a] = select(lt(" + x + ", " + y + "), fma(" + x +
            ", 0.5, " + z + "), mul(sub(" + y + ", max(" + z + ", " + x + ")), 0.25))\n";
  }
  text += "out 0 f32 [a] dense = " + value(kStages - 1) + "\nout 1 bool [a] dense = and(lt(" +
          value(kStages - 1) + ", " + value(kStages / 2) + "), ne(" + value(kStages - 2) + ", 0))";
  ExpectExact(text, {{1}, {65}, {1000}});
  if (HostIsa() == IsaLevel::kBaseline) return;
  const auto vm = VmKernel::Compile(Parse(text));
  ASSERT_TRUE(vm.ok()) << vm.status();
  ASSERT_EQ((*vm)->program().passes.size(), 1u);
  EXPECT_GT((*vm)->program().passes[0].strips.size(), 1u);
  EXPECT_GT((*vm)->program().passes[0].num_slots, 8u);
}

TEST(VmTest, TypesMixInAStrip) {
  const std::string text = R"(
dims a
in 0 u8 [a] dense
in 1 f16 [a] dense
in 2 i32 [a] dense
in 3 bool [a] dense
in 4 bf16 [a] dense
s0 : f32 [a] = mul(sub(cast<f32>(in0[a]), 7), in1[a])
s1 : bool [a] = or(and(in3[a], le(s0[a], in4[a])), lt(in2[a], cast<i32>(in0[a])))
s2 : f32 [a] = select(s1[a], s0[a], cast<f32>(s1[a]))
out 0 u8 [a] dense = cast<u8>(round(s2[a]))
out 1 bf16 [a] dense = add(s2[a], cast<f32>(shr(in2[a], i32:3)))
out 2 i8 [a] dense = cast<i8>(s0[a])
out 3 f16 [a] dense = neg(s2[a])
out 4 i32 [a] dense = add(cast<i32>(s0[a]), cast<i32>(s1[a]))
)";
  ExpectExact(text, {{1}, {31}, {300}, {4100}});
  if (HostIsa() == IsaLevel::kBaseline) return;
  const auto vm = VmKernel::Compile(Parse(text));
  ASSERT_TRUE(vm.ok()) << vm.status();
  EXPECT_EQ((*vm)->program().passes[0].strips.size(), 1u);
}

TEST(VmTest, LongBlocks) {
  const std::string text = R"(
dims a b
in 0 f32 [a, b] dense
in 1 f32 [b] dense
s0 : f32 [a] = reduce add over b (mul(in0[a, b], in1[b]))
s1 : f32 [b] = reduce max over a (in0[a, b])
out 0 f32 [a, b] dense = sub(mul(in0[a, b], s0[a]), s1[b])
)";
  ExpectExact(text, {{2, 4096}, {33, 4097}, {1, 9001}});
  if (HostIsa() == IsaLevel::kBaseline) return;
  const auto vm = VmKernel::Compile(Parse(text));
  ASSERT_TRUE(vm.ok()) << vm.status();
  for (const vm::Pass& pass : (*vm)->program().passes) EXPECT_GT(pass.block, vm::kBlock);
}

TEST(VmTest, WhatColumnReductionsHaveOncePerRow) {
  const std::string text = R"(
dims a b
in 0 f32 [a, b] dense
in 1 f32 [a] dense
in 2 i64 [b] dense
s0 : f32 [b] = reduce add over a (mul(sub(in0[a, b], in1[a]), exp(in1[a])))
s1 : i64 [b] = reduce max over a (add(in2[b], index(a)))
out 0 f32 [b] dense = s0[b]
out 1 i64 [b] dense = s1[b]
)";
  ExpectExact(text, {{1, 1}, {40, 7}, {70, 300}, {3, 2500}});
  const auto vm = VmKernel::Compile(Parse(text));
  ASSERT_TRUE(vm.ok()) << vm.status();
  EXPECT_GT((*vm)->program().passes[0].each.size(), 2u);
}

TEST(VmTest, SixteenBitFloats) {
  for (const char* type : {"f16", "bf16"}) {
    const std::string t = type;
    ExpectExact("dims a b\nin 0 " + t + " [a, b] rows\nin 1 " + t + " [b] dense\nout 0 " + t +
                    " [a, b] rows = add(mul(in0[a, b], in1[b]), in1[b])\nout 1 f32 [a, b] dense = "
                    "roundto<" +
                    t + ">(in0[a, b])",
                {{3, 100}, {2, 5}, {1, 1024}});
  }
}

TEST(VmTest, ComparisonsAndBools) {
  ExpectExact(R"(
dims a
in 0 f32 [a] dense
in 1 bool [a] dense
in 2 i64 [a] dense
out 0 bool [a] dense = and(or(isnan(in0[a]), in1[a]), not(eq(in2[a], i64:3)))
out 1 bool [a] dense = xor(ne(in0[a], 0), in1[a])
out 2 i64 [a] dense = select(in1[a], in2[a], cast<i64>(lt(in0[a], 1)))
)",
              {{1}, {100}, {700}});
}

TEST(VmTest, TransposesAndBroadcasts) {
  ExpectExact(R"(
dims a b c
in 0 f32 [c, a] dense
in 1 f32 [a, b, c] strided
in 2 f32 [b] strided
in 3 f32 [] dense
out 0 f32 [c, b, a] dense = add(mul(in0[c, a], in1[a, b, c]), sub(in2[b], in3[]))
out 1 f32 [b, a, c] strided = in1[a, b, c]
)",
              {{1, 1, 1}, {5, 6, 7}, {3, 2, 600}, {70, 3, 2}});
}

TEST(VmTest, MatricesReadByColumns) {
  for (const std::string type : {"f32", "i32", "i16"}) {
    ExpectExact("dims a b c\nin 0 " + type + " [a, c, b] dense\nin 1 " + type +
                    " [b] dense\nout 0 " + type +
                    " [a, b, c] dense = add(in0[a, c, b], in1[b])\nout 1 " + type +
                    " [a, b, c] dense = in0[a, c, b]",
                {{2, 20, 96}, {3, 9, 109}, {1, 17, 30}, {2, 56, 256}, {5, 1, 40}, {4, 7, 13}});
  }
}

TEST(VmTest, IndexArithmetic) {
  ExpectExact(R"(
dims a b
sizes n
in 0 f32 [n, b] dense
out 0 f32 [a, b] dense = add(in0[(a)/2, b], in0[(a+1)%3, b])
out 1 i64 [a, b] dense = add(mul(index(a), extent(b)), add(index(b), extent(n)))
)",
              {{6, 5, 4}, {8, 520, 7}});
  ExpectExact("dims a\nsizes n\nin 0 f32 [n] dense\nout 0 f32 [a] dense = in0[|n|-a-1]",
              {{10, 10}, {600, 1000}});
  ExpectExact("dims a\nsizes n\nin 0 f32 [n] dense\nout 0 f32 [a] dense = in0[((2*a+1)/3)%5]",
              {{100, 5}});
}

TEST(VmTest, PadsWithoutReadingOutside) {
  ExpectExact(R"(
dims a b
sizes n m
in 0 f32 [n, m] dense
par 0 f32
out 0 f32 [a, b] dense = guard(and(and(le(i64:2, index(a)), lt(index(a), add(extent(n), i64:2))), and(le(i64:3, index(b)), lt(index(b), add(extent(m), i64:3)))), in0[a-2, b-3], par0)
out 1 f32 [a, b] dense = guard(lt(index(b), extent(m)), in0[(a)%2, |m|-b-1], 0)
)",
              {{9, 20, 5, 14}, {5, 700, 2, 600}, {4, 4, 3, 0}, {3, 40, 0, 8}});
}

TEST(VmTest, Gathers) {
  for (const char* type : {"i32", "i64", "u8", "u64"}) {
    ExpectExact("dims a b\nsizes n\nin 0 f32 [n, b] dense\nin 1 " + std::string(type) +
                    " [a] dense\nout 0 f32 [a, b] dense = in0[[in1[a]], b]",
                {{30, 5, 7}, {3, 600, 2}, {600, 1, 9}});
    ExpectExact("dims a b\nsizes n\nin 0 f32 [a, n] dense\nin 1 " + std::string(type) +
                    " [b] dense\nout 0 f32 [a, b] dense = in0[a, [in1[b]]]",
                {{5, 30, 7}, {2, 600, 11}});
  }
}

TEST(VmTest, StagesReadElsewhere) {
  ExpectExact(R"(
dims a b
in 0 f32 [a, b] dense
s0 : f32 [a, b] = mul(in0[a, b], in0[a, b])
s1 : f32 [b] = reduce add over a (s0[a, b])
out 0 f32 [a, b] dense = add(guard(le(i64:1, index(b)), s0[a, b-1], 0), guard(lt(index(a), sub(extent(a), i64:1)), s0[a+1, b], s1[b]))
)",
              {{1, 1}, {4, 9}, {3, 1100}, {40, 30}});
}

TEST(VmTest, ReductionsOfBothDimsInOneKernel) {
  ExpectExact(R"(
dims a b
in 0 f32 [a, b] dense
s0 : f32 [a, b] = exp(in0[a, b])
s1 : f32 [a] = reduce add over b (s0[a, b])
s2 : f32 [b] = reduce max over a (s0[a, b])
s3 : f32 [] = reduce min over a (s1[a])
out 0 f32 [a, b] dense = add(add(s0[a, b], s3[]), mul(s1[a], s2[b]))
out 1 f32 [b] dense = s2[b]
)",
              {{1, 1}, {20, 30}, {600, 7}, {2, 5000}});
}

TEST(VmTest, RowAndColumnSumsTakeBlocksOfRowsInTurn) {
  const std::string text = R"(
dims a b
in   0 f32 [a, b] dense
in   1 f32 [a] dense
in   2 f32 [a, b] dense
s0 : f32 [a, b] = mul(in0[a, b], in1[a])
s1 : f32 [b]    = reduce add over a (mul(s0[a, b], in2[a, b]))
s2 : f32 [a]    = reduce add over b (s0[a, b])
out  0 f32 [b] dense = s1[b]
out  1 f32 [a, b] dense = sub(in2[a, b], mul(s0[a, b], s2[a]))
)";
  auto vm = VmKernel::Compile(Parse(text));
  ASSERT_TRUE(vm.ok());
  EXPECT_EQ((*vm)->program().swept, 3u);
  EXPECT_EQ((*vm)->program().passes.size(), 4u);
  // What needs a sum of columns waits until all rows are summed.
  auto all = VmKernel::Compile(Parse(R"(
dims a b
in   0 f32 [a, b] dense
s0 : f32 [b]    = reduce add over a (in0[a, b])
out  0 f32 [a, b] dense = sub(in0[a, b], s0[b])
)"));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ((*all)->program().swept, 0u);
  ExpectExact(text, {{300, 700}, {31, 4096}, {65, 4097}, {3000, 1}, {0, 3}});
}

TEST(VmTest, ManyDims) {
  ExpectExact(R"(
dims a b c d e
in 0 f32 [a, b, c, d, e] dense
in 1 f32 [c] dense
s0 : f32 [a, c] = reduce add over b d e (in0[a, b, c, d, e])
out 0 f32 [a, b, c, d, e] dense = sub(in0[a, b, c, d, e], mul(s0[a, c], in1[c]))
)",
              {{2, 3, 4, 5, 6}, {1, 2, 1, 2, 700}});
}

TEST(VmTest, WritesOverItsInput) {
  const Kernel kernel = Parse(kSoftmax);
  for (const IsaLevel isa : LevelsHere()) {
    for (const std::vector<int64_t>& extents :
         {std::vector<int64_t>{7, 100}, {3, 4500}, {64, 512}}) {
      const Case c = {extents, 2, isa, 5};
      Operands apart = MakeOperands(kernel, c), over = MakeOperands(kernel, c);
      ASSERT_EQ(RunInVm(kernel, c, apart), 0);
      over.outputs[0] = over.inputs[0];
      auto vm = VmKernel::Compile(kernel, isa);
      ASSERT_TRUE(vm.ok());
      Operands& o = over;
      const auto bind = [](TestBuffer& b) {
        b.arg.host = static_cast<uint8_t*>(b.data());
        b.arg.dimensions = static_cast<int32_t>(b.dims.size());
        b.arg.dim = b.dims.data();
        return static_cast<void*>(&b.arg);
      };
      void* argv[] = {nullptr,       bind(o.outputs[0]), bind(o.inputs[1]), &o.extents[0],
                      &o.extents[1], &o.params[0],       bind(o.outputs[0])};
      Pool pool(2);
      Launcher launcher(&pool);
      ASSERT_EQ(launcher.Launch(&RunVm, vm->get(), argv), 0);
      for (int64_t i = 0; i < extents[0] * extents[1]; ++i) {
        const float a = static_cast<float*>(apart.outputs[0].data())[i],
                    b = static_cast<float*>(o.outputs[0].data())[i];
        ASSERT_TRUE(a == b || (a != a && b != b)) << i;
      }
    }
  }
}

// How many stores of the kernel's strips have a form that bypasses the caches.
int NonTemporalStores(const std::string& text, IsaLevel isa) {
  auto vm = VmKernel::Compile(Parse(text), isa);
  EXPECT_TRUE(vm.ok());
  int stores = 0;
  for (const vm::Pass& pass : (*vm)->program().passes) {
    for (const vm::Strip& strip : pass.strips) {
      for (const vm::StripStep& step : strip.steps) stores += step.past.wide != nullptr ? 1 : 0;
    }
  }
  return stores;
}

// Rows of whole lines are written around the caches: by strips, by strips that need again what they
// write, and as copies.
TEST(VmTest, WritesAroundTheCaches) {
  const std::string in = "dims a b\nin 0 f32 [a, b] dense\nout 0 ";
  const std::vector<std::vector<int64_t>> rows = {{3, 64}, {2, 4160}, {1, 128}, {5, 704}};
  for (const std::string type : {"f32", "f16", "bf16"})
    ExpectExact(in + type + " [a, b] dense = mul(in0[a, b], 3)", rows);
  for (const std::string type : {"u8", "i8", "u16", "i16", "i32", "bool", "f64", "i64"}) {
    ExpectExact(in + type + " [a, b] dense = cast<" + type + ">(mul(in0[a, b], 3))", rows);
  }
  const std::string three = R"(
dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
s0 : f32 [a] = fma(in0[a], in1[a], in0[a])
s1 : f32 [a] = mul(s0[a], in1[a])
out  0 f32 [a] dense = s0[a]
out  1 f32 [a] dense = s1[a]
out  2 f32 [a] dense = div(add(in1[a], s1[a]), add(s0[a], s0[a]))
)";
  ExpectExact(three, {{1}, {16}, {64}, {4096}, {10000}});
  for (const IsaLevel isa : LevelsHere())
    EXPECT_EQ(NonTemporalStores(three, isa), isa == IsaLevel::kBaseline ? 0 : 3);
  EXPECT_EQ(NonTemporalStores(kSoftmax, HostIsa()), HostIsa() == IsaLevel::kBaseline ? 0 : 1);
  ExpectExact(
      in +
          "f32 [a, b] dense = in0[a, b]\nin 1 f32 [b, a] dense\nout 1 f32 [a, b] dense = in1[b, a]",
      {{16, 32}, {64, 700}, {700, 64}, {3, 1024}});
}

TEST(VmTest, KeepsItsScratchBetweenLaunches) {
  const Kernel kernel = Parse(kSoftmax);
  auto vm = VmKernel::Compile(kernel);
  ASSERT_TRUE(vm.ok());
  Operands o = MakeOperands(kernel, {{300, 900}, 2, HostIsa(), 1});
  for (auto* list : {&o.inputs, &o.outputs}) {
    for (TestBuffer& b : *list) {
      b.arg.host = static_cast<uint8_t*>(b.data());
      b.arg.dimensions = static_cast<int32_t>(b.dims.size());
      b.arg.dim = b.dims.data();
    }
  }
  void* argv[] = {nullptr,       &o.inputs[0].arg, &o.inputs[1].arg, &o.extents[0],
                  &o.extents[1], &o.params[0],     &o.outputs[0].arg};
  Pool pool(2);
  Launcher launcher(&pool);
  ASSERT_EQ(launcher.Launch(&RunVm, vm->get(), argv), 0);
  ASSERT_EQ(launcher.Launch(&RunVm, vm->get(), argv), 0);
  const size_t scratch = launcher.scratch_bytes();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(launcher.Launch(&RunVm, vm->get(), argv), 0);
  EXPECT_EQ(launcher.scratch_bytes(), scratch);
  bool cancel = true;
  launcher.set_cancel(&cancel);
  EXPECT_EQ(launcher.Launch(&RunVm, vm->get(), argv), kVmCancelled);
}

TEST(VmTest, RefusesTooManyDims) {
  std::string text = "dims";
  for (int i = 0; i < 17; ++i) text += " d" + std::to_string(i);
  const auto vm =
      VmKernel::Compile(Parse(text + "\nin 0 f32 [d0] dense\nout 0 f32 [d0] dense = in0[d0]"));
  EXPECT_EQ(vm.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace kiln
