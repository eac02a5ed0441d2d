// SPDX-License-Identifier: Apache-2.0
// Compiled kernels against the oracle, bit by bit, at extents with every kind of tail.
#include <gtest/gtest.h>

#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

class BitsTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  CompiledKernel Compile(const std::string& text, const std::string& scheduler = "", SizeClass sizes = {}) {
    return CompiledKernel("kernel v1 math 1\n" + text, GetParam(), scheduler, std::move(sizes));
  }
};

constexpr char kSoftmax[] = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
par  0 f32
s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])
s1 : f32 [a]    = reduce max over b (s0[a, b])
s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))
s3 : f32 [a]    = reduce add over b (s2[a, b])
out  0 f32 [a, b] dense = div(s2[a, b], s3[a])
)";

constexpr char kLayerNorm[] = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
in   2 f32 [b] dense
in   3 f32 [b] dense
par  0 f32
par  1 f32
s0 : f32 [a, b] = add(in0[a, b], in1[a, b])
s1 : f32 [a]    = reduce add over b (s0[a, b])
s2 : f32 [a]    = mul(s1[a], par0)
s3 : f32 [a, b] = sub(s0[a, b], s2[a])
s4 : f32 [a]    = reduce add over b (mul(s3[a, b], s3[a, b]))
s5 : f32 [a]    = div(1, sqrt(add(mul(s4[a], par0), par1)))
out  0 f32 [a, b] dense = add(mul(mul(s3[a, b], s5[a]), in2[b]), in3[b])
)";

constexpr char kProduct[] = R"(dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
in   2 f32 [a] dense
out  0 f32 [a] dense = mul(mul(in0[a], in1[a]), in2[a])
)";

TEST_P(BitsTest, ProductOfThree) {
  CompiledKernel kernel = Compile(kProduct);
  EXPECT_EQ(kernel.params().scheduler, "pointwise");
  EXPECT_EQ(kernel.params().in_place.size(), 3u);
  for (int32_t n = 0; n <= 200; ++n) kernel.Check({n}, static_cast<uint32_t>(n));
  for (const int32_t n : {4095, 4096, 4097, 10000, 32767, 32768, 32769, 100000}) kernel.Check({n}, 1);
}

TEST_P(BitsTest, SoftmaxOfRowsOfOneBlock) {
  CompiledKernel kernel = Compile(kSoftmax, "", {{kUnbounded, 4096}});
  EXPECT_EQ(kernel.params().scheduler, "row");
  EXPECT_EQ(kernel.params().Get("levels", 0), 1);
  for (int32_t n = 0; n <= 200; ++n) kernel.Check({2, n}, static_cast<uint32_t>(n));
  for (const int32_t n : {1000, 4095, 4096}) kernel.Check({3, n}, 1);
  kernel.Check({1000, 3}, 7);
}

TEST_P(BitsTest, SoftmaxOfLongRows) {
  CompiledKernel kernel = Compile(kSoftmax);
  EXPECT_EQ(kernel.params().Get("levels", 0), 3);
  for (const int32_t n : {0, 1, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 10000}) kernel.Check({2, n}, 1);
}

TEST_P(BitsTest, LayerNorm) {
  CompiledKernel kernel = Compile(kLayerNorm, "", {{kUnbounded, 4096}});
  EXPECT_EQ(kernel.params().scheduler, "row");
  for (int32_t n = 1; n <= 200; n += 3) kernel.Check({3, n}, static_cast<uint32_t>(n));
  kernel.Check({50, 768}, 1);
}

TEST_P(BitsTest, GeneralGivesTheSameBitsAsRow) {
  CompiledKernel softmax = Compile(kSoftmax, "general", {{kUnbounded, 4096}});
  CompiledKernel norm = Compile(kLayerNorm, "general");
  for (const int32_t n : {1, 5, 64, 100, 1000}) {
    softmax.Check({7, n}, 1);
    norm.Check({7, n}, 1);
  }
  norm.Check({2, 5000}, 1);
}

TEST_P(BitsTest, GeneralComputesMaps) {
  CompiledKernel kernel = Compile(kProduct, "general");
  for (const int32_t n : {1, 7, 64, 100, 40000}) kernel.Check({n}, 1);
}

TEST_P(BitsTest, BroadcastsInAllDims) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
in   2 f32 [a, c] dense
in   3 f32 [] dense
out  0 f32 [a, b, c] dense = add(mul(in0[a, b, c], in1[b]), sub(in2[a, c], in3[]))
)");
  EXPECT_EQ(kernel.params().scheduler, "pointwise");
  for (int32_t n = 1; n < 70; n += 3) kernel.Check({3, 5, n}, static_cast<uint32_t>(n));
  kernel.Check({100, 9, 1}, 1);
  kernel.Check({2, 300, 130}, 1);
}

TEST_P(BitsTest, ColumnSum) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [b] = reduce add over a (in0[a, b])
out  0 f32 [b] dense = s0[b]
)");
  EXPECT_EQ(kernel.params().scheduler, "general");
  for (const int32_t rows : {0, 1, 2, 511, 512, 513, 1500}) {
    for (const int32_t n : {1, 7, 16, 33, 100}) kernel.Check({rows, n}, 1);
  }
}

TEST_P(BitsTest, FullSumAndMax) {
  CompiledKernel kernel = Compile(R"(dims a
in   0 f32 [a] dense
s0 : f32 [] = reduce add over a (in0[a])
s1 : f32 [] = reduce max over a (in0[a])
out  0 f32 [] dense = s0[]
out  1 f32 [] dense = s1[]
)");
  for (const int32_t n : {0, 1, 2, 63, 64, 65, 200, 4095, 4096, 4097, 10000, 70000}) kernel.Check({n}, 1);
}

TEST_P(BitsTest, ReducesSeveralDimsInnermostFirst) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [b] = reduce add over a c (in0[a, b, c])
s1 : f32 [] = reduce min over a b c (in0[a, b, c])
out  0 f32 [b] dense = div(s0[b], s1[])
)");
  for (const int32_t n : {0, 1, 5, 64, 100}) {
    kernel.Check({3, 4, n}, 1);
    kernel.Check({600, 2, n}, 2);
    kernel.Check({0, 2, n}, 2);
  }
}

TEST_P(BitsTest, ReducesInEveryWay) {
  for (const std::string type : {"f32", "f64", "i32", "u8", "i64"}) {
    for (const std::string op : {"add", "mul", "max", "min", "and", "or"}) {
      const bool is_float = type[0] == 'f';
      if (is_float && (op == "and" || op == "or")) continue;
      CompiledKernel kernel = Compile("dims a b\nin 0 " + type + " [a, b] dense\ns0 : " + type + " [a] = reduce " + op +
                                          " over b (in0[a, b])\nout 0 " + type + " [a] dense = s0[a]\n",
                                      "", {{kUnbounded, 4096}});
      EXPECT_EQ(kernel.params().scheduler, "row");
      for (const int32_t n : {0, 1, 63, 64, 65, 300}) kernel.Check({3, n}, 1);
    }
  }
}

TEST_P(BitsTest, LogicalReductions) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : bool [a] = reduce and over b (lt(in0[a, b], 1))
s1 : bool [a] = reduce or over b (lt(in0[a, b], -1))
s2 : bool [b] = reduce and over a (lt(in0[a, b], 1))
out  0 bool [a] dense = xor(s0[a], s1[a])
out  1 bool [b] dense = s2[b]
)");
  for (const int32_t n : {0, 1, 3, 64, 100}) kernel.Check({3, n}, static_cast<uint32_t>(n));
}

TEST_P(BitsTest, RowsWithOutputsOfBothRanks) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [a, b] = reduce add over c (in0[a, b, c])
s1 : f32 [a, b] = reduce max over c (in0[a, b, c])
out  0 f32 [a, b] dense = s0[a, b]
out  1 f32 [a, b, c] dense = sub(in0[a, b, c], s1[a, b])
out  2 f16 [a, b, c] dense = sub(in0[a, b, c], s0[a, b])
out  3 f32 [a, b] dense = s1[a, b]
)");
  EXPECT_EQ(kernel.params().scheduler, "row");
  for (const int32_t n : {1, 16, 65, 300, 5000}) kernel.Check({2, 3, n}, static_cast<uint32_t>(n));
}

TEST_P(BitsTest, SixteenBitRows) {
  for (const std::string type : {"f16", "bf16"}) {
    CompiledKernel kernel = Compile("dims a b\nin 0 " + type + " [a, b] dense\n" +
                                    "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
                                    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
                                    "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
                                    "out 0 " + type + " [a, b] dense = div(s1[a, b], s2[a])\n", "", {{kUnbounded, 4096}});
    for (const int32_t n : {1, 7, 16, 33, 100, 1000}) kernel.Check({3, n}, static_cast<uint32_t>(n));
  }
}

TEST_P(BitsTest, TransposedReadAndStore) {
  CompiledKernel read = Compile("dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\n");
  CompiledKernel store = Compile("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [b, a] dense = neg(in0[a, b])\n");
  EXPECT_EQ(store.params().scheduler, "general");
  for (const int32_t n : {1, 8, 33, 100}) {
    read.Check({17, n}, 1);
    store.Check({17, n}, 1);
  }
}

TEST_P(BitsTest, StridedOperands) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] strided
in   1 f32 [a, b] rows
in   2 f32 [b] strided
out  0 f32 [a, b] rows = add(in0[a, b], in1[a, b])
out  1 f32 [a, b] strided = mul(in0[a, b], in2[b])
)");
  for (const int32_t n : {1, 8, 33, 100}) kernel.Check({17, n}, 1);
}

TEST_P(BitsTest, PadsAndConcatenatesByGuards) {
  CompiledKernel pad = Compile(R"(dims a b
sizes n0
in   0 f32 [a, n0] dense
out  0 f32 [a, b] dense = guard(and(le(i64:2, index(b)), lt(index(b), add(extent(n0), i64:2))), in0[a, b-2], 0)
)");
  CompiledKernel concat = Compile(R"(dims a b
sizes n0 n1
in   0 f32 [a, n0] dense
in   1 f32 [a, n1] dense
out  0 f32 [a, b] dense = guard(lt(index(b), extent(n0)), in0[a, b], guard(bool:1, in1[a, b-|n0|], 0))
)");
  for (const int32_t n : {0, 1, 30, 100}) {
    pad.Check({3, n + 4, n}, 1);
    concat.Check({3, n + 7, n, 7}, 1);
    concat.Check({3, n + 40, 40, n}, 1);
  }
}

TEST_P(BitsTest, AffineDividedAndLoadedIndices) {
  CompiledKernel kernel = Compile(R"(dims a b
sizes n0 n1 n2
in   0 f32 [n0] dense
in   1 i64 [b] dense
in   2 f32 [n1, n2] dense
in   3 i32 [a] dense
s0 : f32 [b] = in0[2*b+1]
out  0 f32 [a, b] dense = add(s0[b], in0[(a+b)/2])
out  1 f32 [a, b] dense = in2[[in3[a]], [in1[b]]]
out  2 f32 [a, b] dense = in2[a%3, ((a+b)/2)%5]
)");
  for (const int32_t n : {1, 8, 50}) kernel.Check({4, n, 2 * n + 60, 3, 5}, static_cast<uint32_t>(n));
}

TEST_P(BitsTest, StagesReadAtOtherElements) {
  const std::string text = R"(dims a b
sizes n0
in   0 f32 [n0] dense
s0 : f32 [b] = exp(in0[b])
s1 : f32 [b] = mul(s0[b/2], in0[b+1])
s2 : f32 [] = reduce add over b (s1[b])
out  0 f32 [a, b] dense = add(s1[a], mul(s0[b/3], s2[]))
)";
  CompiledKernel kernel = Compile(text);
  EXPECT_EQ(kernel.params().scheduler, "general");
  kernel.Check({20, 20, 21}, 1);
  kernel.Check({3, 77, 78}, 2);
  CompiledKernel maps = Compile(R"(dims a
sizes n0
in   0 f32 [n0] dense
s0 : f32 [a] = exp(in0[a])
s1 : f32 [a] = add(s0[a/2], s0[a/3])
out  0 f32 [a] dense = add(s1[a/2], s1[a])
)");
  EXPECT_EQ(maps.params().scheduler, "pointwise");
  maps.Check({100, 100}, 1);
}

TEST_P(BitsTest, ScalarsAndCoordinates) {
  CompiledKernel scalar = Compile("in 0 f32 [] dense\npar 0 f32\nout 0 f32 [] dense = exp(mul(in0[], par0))\n");
  scalar.Check({}, 1);
  CompiledKernel coordinates = Compile(R"(dims a b
par  0 i64
par  1 bool
out  0 i64 [a, b] dense = add(mul(index(a), extent(b)), add(index(b), par0))
out  1 bool [a, b] dense = xor(par1, lt(index(a), index(b)))
)");
  coordinates.Check({5, 37}, 1);
}

INSTANTIATE_TEST_SUITE_P(Levels, BitsTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) { return info.param == IsaLevel::kV3 ? "V3" : "V4"; });

}  // namespace
}  // namespace kiln
