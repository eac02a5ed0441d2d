// SPDX-License-Identifier: Apache-2.0
// Kernels that reduce outer, middle or several dims column by column, against EvalKernel, bit by
// bit, at extents with every kind of tail.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/halide_gen/harness.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

class ColumnsTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  CompiledKernel Compile(const std::string& text, SizeClass sizes,
                         const std::string& words = "outer_reduction") {
    return CompiledKernel("kernel v1 math 1\n" + text, GetParam(), words, std::move(sizes));
  }
};

TEST_P(ColumnsTest, SoftmaxOverTheOuterDim) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [b]    = reduce max over a (in0[a, b])
s1 : f32 [a, b] = exp(sub(in0[a, b], s0[b]))
s2 : f32 [b]    = reduce add over a (s1[a, b])
s3 : f32 [b]    = div(1, s2[b])
out  0 f32 [a, b] dense = mul(s1[a, b], s3[b])
)",
                                  {{1024, kUnbounded}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "outer_levels", 0), 2);
  for (int32_t n = 1; n <= 140; ++n) kernel.Check({n % 7, n}, static_cast<uint32_t>(n));
  for (const int32_t rows : {1, 31, 32, 33, 65, 1000, 1024}) kernel.Check({rows, 70}, 1);
  kernel.Check({3, 5000}, 2);
}

// The last block of a column has fewer elements than others.
TEST_P(ColumnsTest, ReadNothingBehindTheirOperands) {
  constexpr int64_t kRows = 76, kColumns = 1024, kBytes = 4 * kRows * kColumns, kPage = 4096;
  static_assert(kBytes % kPage == 0);
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [b]    = reduce max over a (in0[a, b])
s1 : f32 [a, b] = exp(sub(in0[a, b], s0[b]))
s2 : f32 [b]    = reduce add over a (s1[a, b])
out  0 f32 [a, b] dense = div(s1[a, b], s2[b])
)",
                                  {{kRows, kColumns}});
  void* const memory =
      mmap(nullptr, kBytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<uint8_t*>(memory) + kBytes, kPage, PROT_NONE), 0);
  const HostView input{DType::kF32, {kRows, kColumns}, {kColumns, 1}, memory};
  HostArray output = HostArray::Make(DType::kF32, {kRows, kColumns});
  EXPECT_EQ(kernel.loaded().Run(kernel.kernel(), {kRows, kColumns}, {}, {input}, {output.View()}),
            0);
  munmap(memory, kBytes + kPage);
}

// An output tile is a row, also where blocks of rows are tasks, or columns have a few elements.
TEST_P(ColumnsTest, WholeRowsOfTiles) {
  const int32_t vector = GetParam() == IsaLevel::kV4 ? 16 : 8, most = vector == 16 ? 256 : 96;
  for (const auto& [rows, columns] : std::vector<std::pair<int32_t, int32_t>>{
           {3, 5}, {2, vector}, {20, vector + 3}, {70, most / 2 + 5}, {3000, most - 3}}) {
    CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
s0 : f32 [a, c] = reduce add over b (mul(in0[a, b, c], in1[b]))
out  0 f32 [a, c] dense = div(s0[a, c], 3)
)",
                                    {{9, rows, columns}}, "outer_reduction whole_row=1");
    EXPECT_GE(FieldOf(kernel.schedule(), "step", 0), columns);
    for (const int32_t n : {1, columns - 1, columns}) kernel.Check({3, rows - 1, n}, 5);
    kernel.Check({4, 2, columns}, 6);
  }
}

// Scratch ends where nothing can be read, and the last tile of a row of sums is not full.
TEST_P(ColumnsTest, TilesOfSumsEndWithTheirRows) {
  CompiledKernel one = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [b] = reduce add over a (in0[a, b])
out  0 f32 [b] dense = s0[b]
)",
                               {{kUnbounded, kUnbounded}}, "staged");
  for (const int32_t columns : {1, 300, 4500}) one.Check({2100, columns}, 1);
  CompiledKernel two = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
s0 : f32 [b, d] = reduce add over a c (in0[a, b, c, d])
out  0 f32 [b, d] dense = s0[b, d]
)",
                               {{kUnbounded, kUnbounded, kUnbounded, kUnbounded}}, "staged");
  two.Check({40, 3, 40, 300}, 2);
}

TEST_P(ColumnsTest, InstanceNormWithChannelsLast) {
  const std::string text = R"(dims a b c
sizes n0
in   0 f32 [a, b, c] dense
in   1 f32 [c] dense
in   2 f32 [c] dense
par  0 f32
s0 : f32 [a, c]    = reduce add over b (in0[a, b, c])
s1 : f32 [a, c]    = div(s0[a, c], cast<f32>(extent(n0)))
s2 : f32 [a, b, c] = sub(in0[a, b, c], s1[a, c])
s3 : f32 [a, c]    = reduce add over b (mul(s2[a, b, c], s2[a, b, c]))
s4 : f32 [a, c]    = div(1, sqrt(add(div(s3[a, c], cast<f32>(extent(n0))), par0)))
out  0 f32 [a, b, c] dense = add(mul(mul(s2[a, b, c], s4[a, c]), in1[c]), in2[c])
)";
  CompiledKernel kernel = Compile(text, {{kUnbounded, 40000, kUnbounded, kUnbounded}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "outer_levels", 0), 4);
  for (const int32_t c : {1, 3, 8, 16, 17, 64, 65, 100}) kernel.Check({3, 37, c, 37}, 1);
  for (const int32_t rows : {1, 32, 33, 1025, 3000}) kernel.Check({2, rows, 5, rows}, 2);
  kernel.Check({1, 33000, 2, 33000}, 3);
  CompiledKernel narrow = Compile(text, {{kUnbounded, 1024, 3, 1024}});
  EXPECT_EQ(FieldOf(narrow.schedule(), "step", 0), 8);
  for (const int32_t c : {1, 2, 3}) narrow.Check({2, 100, c, 100}, 4);
}

constexpr char kBatchNorm[] = R"(dims a b c
sizes n0
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
par  0 f32
s0 : f32 [b]       = reduce add over a c (in0[a, b, c])
s1 : f32 [b]       = div(s0[b], cast<f32>(extent(n0)))
s2 : f32 [a, b, c] = sub(in0[a, b, c], s1[b])
s3 : f32 [b]       = reduce add over a c (mul(s2[a, b, c], s2[a, b, c]))
s4 : f32 [b]       = div(1, sqrt(add(div(s3[b], cast<f32>(extent(n0))), par0)))
out  0 f32 [a, b, c] dense = max(mul(mul(s2[a, b, c], s4[b]), in1[b]), 0)
out  1 f32 [b] dense = s1[b]
out  2 f32 [b] dense = s4[b]
)";

TEST_P(ColumnsTest, BatchNormOverBothSides) {
  CompiledKernel kernel =
      Compile(kBatchNorm, {{1024, kUnbounded, 4096, kUnbounded}}, "outer_reduction memory_order=1");
  for (const int32_t n : {1, 15, 16, 63, 64, 65, 300, 4096}) kernel.Check({3, 4, n, 3 * n}, 1);
  for (const int32_t n : {1, 32, 33, 100}) kernel.Check({n, 3, 7, 7 * n}, 2);
  CompiledKernel near =
      Compile(kBatchNorm, {{100, 20, 65, 6500}}, "outer_reduction memory_order=0");
  for (const int32_t n : {1, 15, 16, 64, 65}) near.Check({3, 4, n, 3 * n}, 1);
}

TEST_P(ColumnsTest, BatchNormOfLongRows) {
  CompiledKernel kernel = Compile(kBatchNorm, {{32, kUnbounded, 100000, kUnbounded}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "levels", 0), 2);
  for (const int32_t n : {1, 4096, 4097, 9000}) kernel.Check({2, 2, n, 2 * n}, 1);
}

// What was reduced is computed once for all outputs.
TEST_P(ColumnsTest, OutputsOfBothRanksInTiles) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f16 [c] dense
s0 : f32 [a, c] = reduce add over b (in0[a, b, c])
s1 : f32 [a, b, c] = sub(in0[a, b, c], s0[a, c])
s2 : f32 [a, c] = reduce add over b (mul(s1[a, b, c], s1[a, b, c]))
s3 : f32 [a, c] = sqrt(add(s2[a, c], cast<f32>(in1[c])))
out  0 f32 [a, c] dense = s0[a, c]
out  1 f32 [a, b, c] dense = div(s1[a, b, c], s3[a, c])
out  2 f64 [a, c] dense = cast<f64>(mul(s2[a, c], s3[a, c]))
)",
                                  {{kUnbounded, 900, kUnbounded}});
  for (int32_t n = 0; n <= 140; n += 3) kernel.Check({n % 4, 5, n}, static_cast<uint32_t>(n));
  for (const int32_t rows : {0, 1, 31, 32, 33, 900}) kernel.Check({2, rows, 70}, 1);
}

TEST_P(ColumnsTest, OutputsOfBothRanksOverBothSides) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
s0 : f32 [b] = reduce max over a c (in0[a, b, c])
s1 : f32 [a, b, c] = exp(sub(in0[a, b, c], s0[b]))
s2 : f32 [b] = reduce add over a c (s1[a, b, c])
out  0 f32 [a, b, c] dense = div(s1[a, b, c], s2[b])
out  1 f32 [b] dense = add(s2[b], in1[b])
)",
                                  {{100, kUnbounded, 900}});
  for (int32_t n = 0; n <= 140; n += 3) kernel.Check({n % 5, n % 4, n}, static_cast<uint32_t>(n));
  for (const int32_t a : {0, 1, 31, 32, 33, 100}) kernel.Check({a, 2, 70}, 1);
}

TEST_P(ColumnsTest, TwoReducedDimsBeforeTheInnermost) {
  CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [b, d] dense
s0 : f32 [b, d] = reduce add over a c (in0[a, b, c, d])
s1 : f32 [b, d] = reduce min over a c (mul(in0[a, b, c, d], s0[b, d]))
out  0 f32 [a, b, c, d] dense = add(sub(in0[a, b, c, d], s1[b, d]), in1[b, d])
out  1 f32 [b, d] dense = s0[b, d]
)",
                                  {{1024, kUnbounded, 1024, kUnbounded}});
  for (const int32_t n : {1, 7, 64, 100}) kernel.Check({2, 3, 5, n}, static_cast<uint32_t>(n));
  kernel.Check({40, 2, 35, 3}, 1);
}

// Reductions of one pass: of several operations and types, in tiles of which the last is not full;
// and one that needs what another leaves.
constexpr char kPasses[] = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
in   2 i32 [a, b] dense
in   3 f32 [b] dense
s0 : f32 [b]  = reduce add over a (mul(sub(in1[a, b], in3[b]), in0[a, b]))
s1 : i32 [b]  = reduce max over a (in2[a, b])
s2 : f32 [b]  = reduce add over a (in0[a, b])
s3 : bool [b] = reduce or over a (lt(in0[a, b], in1[a, b]))
s4 : f64 [b]  = reduce add over a (cast<f64>(in1[a, b]))
s5 : f32 [b]  = reduce add over a (mul(in0[a, b], s2[b]))
out  0 f32 [a, b] dense = sub(in0[a, b], select(s3[b], mul(s0[b], s2[b]), s5[b]))
out  1 i32 [b] dense = s1[b]
out  2 f64 [b] dense = s4[b]
)";

TEST_P(ColumnsTest, ReductionsOfOnePass) {
  for (const std::string words :
       {"staged one_vector=1", "staged one_vector=0", "outer_reduction"}) {
    CompiledKernel kernel = Compile(kPasses, {{1024, kUnbounded}}, words);
    for (const int32_t columns : {1, 7, 65})
      for (const int32_t rows : {1, 33, 1024}) kernel.Check({rows, columns}, 1);
    kernel.Check({40, 2100}, 2);
  }
}

TEST_P(ColumnsTest, ReductionsOfOnePassOverTwoDims) {
  for (const std::string words : {"staged", "outer_reduction"}) {
    CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [a, b, c, d] dense
s0 : f32 [b, d] = reduce add over a c (mul(in0[a, b, c, d], in1[a, b, c, d]))
s1 : f32 [b, d] = reduce add over a c (in0[a, b, c, d])
out  0 f32 [a, b, c, d] dense = sub(in1[a, b, c, d], mul(s0[b, d], s1[b, d]))
)",
                                    {{100, kUnbounded, 100, kUnbounded}}, words);
    for (const int32_t n : {1, 7, 64, 100}) kernel.Check({2, 3, 5, n}, static_cast<uint32_t>(n));
    kernel.Check({40, 2, 35, 3}, 1);
    kernel.Check({0, 2, 35, 3}, 1);
  }
}

// What they share is read once: there is one loop for all of a pass.
TEST(Columns, OnePassIsOneLoop) {
  for (const std::string schedule :
       {"staged one_vector=1 outer_levels=2", "outer_reduction outer_levels=2"}) {
    const std::string statements = Statements(kPasses, schedule);
    EXPECT_NE(statements.find("s0_over0_blocks"), std::string::npos);
    EXPECT_NE(statements.find("s5_over0_blocks"), std::string::npos);
    for (const std::string joined : {"s1", "s2", "s3", "s4"})
      EXPECT_EQ(statements.find(joined + "_over0"), std::string::npos) << joined;
  }
}

constexpr char kGroupNorm[] = R"(dims a b c d
sizes n0
in   0 f32 [a, b, c, d] dense
in   1 f32 [b, c] dense
in   2 f32 [b, c] dense
par  0 f32
s0 : f32 [a, b]       = reduce add over c d (in0[a, b, c, d])
s1 : f32 [a, b]       = div(s0[a, b], cast<f32>(extent(n0)))
s2 : f32 [a, b, c, d] = sub(in0[a, b, c, d], s1[a, b])
s3 : f32 [a, b]       = reduce add over c d (mul(s2[a, b, c, d], s2[a, b, c, d]))
s4 : f32 [a, b]       = div(1, sqrt(add(div(s3[a, b], cast<f32>(extent(n0))), par0)))
out  0 f32 [a, b, c, d] dense = add(mul(mul(s2[a, b, c, d], s4[a, b]), in1[b, c]), in2[b, c])
)";

TEST_P(ColumnsTest, GroupNorm) {
  CompiledKernel kernel = Compile(kGroupNorm, {{kUnbounded, kUnbounded, 1024, 4096, kUnbounded}});
  for (const int32_t n : {0, 1, 15, 16, 63, 64, 65, 197, 4093, 4096}) {
    for (const int32_t c : {1, 3, 4}) kernel.Check({2, 3, c, n, c * n}, 1);
  }
  for (const int32_t c : {0, 1, 31, 32, 33, 67}) kernel.Check({1, 5, c, 7, 7 * c}, 2);
}

// Of short columns a stage takes several, and has no more accumulators than a row has elements.
TEST_P(ColumnsTest, GroupNormOfShortColumns) {
  for (const int64_t most : {2, 4, 8, 16, 32, 48, 50}) {
    CompiledKernel kernel = Compile(kGroupNorm, {{kUnbounded, kUnbounded, 4, most, kUnbounded}},
                                    "outer_reduction batch=8");
    EXPECT_EQ(FieldOf(kernel.schedule(), "accumulators", 64), most == 50 ? 64 : most);
    for (const int32_t n : {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 40, 47, 48, 50}) {
      if (n > most) continue;
      for (const int32_t b : {0, 1, 7, 8, 9, 20}) kernel.Check({3, b, 3, n, 3 * n}, 1);
    }
  }
}

// Columns in one piece fold together, and outputs run along all of their dims.
TEST_P(ColumnsTest, GroupNormOfColumnsInOnePiece) {
  for (const int64_t most : {1, 8, 13, 32, 50}) {
    CompiledKernel kernel = Compile(kGroupNorm, {{2000, 5, 4, most, kUnbounded}}, "row_reduction");
    EXPECT_EQ(FieldOf(kernel.schedule(), "dims", 1), 2);
    EXPECT_EQ(FieldOf(kernel.schedule(), "folded", 0), 16);
    EXPECT_EQ(TextOf(kernel.schedule(), "expanded"), "1,2");
    for (const int32_t n : {0, 1, 2, 3, 8, 13, 17, 32, 47, 50}) {
      if (n > most) continue;
      for (const int32_t a : {0, 1, 3, 4, 7}) kernel.Check({a, 5, 4, n, 4 * n}, 1);
      kernel.Check({13, 3, 2, n, 2 * n}, 2);
    }
    kernel.Check({600, 5, 4, static_cast<int32_t>(most), 1}, 3);  // several tasks
  }
}

// What columns leave beside an output over all dims; scales along each of the dims of a column.
TEST_P(ColumnsTest, ColumnsInOnePieceLeaveValuesToo) {
  CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [d] dense
in   2 f32 [c] dense
in   3 f32 [a] dense
s0 : f32 [a]          = reduce max over b c d (mul(in0[a, b, c, d], in1[d]))
s1 : f32 [a]          = sqrt(add(s0[a], mul(in3[a], in3[a])))
out  0 f32 [a, b, c, d] dense = mul(add(in0[a, b, c, d], s1[a]), mul(in1[d], in2[c]))
out  1 f32 [a] dense = add(s1[a], in3[a])
)",
                                  {{9000, 3, 4, 5}}, "row_reduction");
  EXPECT_EQ(FieldOf(kernel.schedule(), "dims", 1), 3);
  for (const int32_t a : {0, 1, 15, 16, 17, 100, 5000})
    for (const int32_t d : {1, 5}) kernel.Check({a, 3, 4, d}, static_cast<uint32_t>(a));
}

// Maps that are kept may lack the dim of the tiles, or of which several tiles are taken at once.
TEST_P(ColumnsTest, MapsOfFewerDimsThanTiles) {
  CompiledKernel tiles = Compile(R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [] dense
s0 : f32 [b] = reduce add over a (in0[a, b])
s1 : f32 []  = exp(in1[])
out  0 f32 [a, b] dense = mul(sub(in0[a, b], s0[b]), s1[])
)",
                                 {{900, kUnbounded}});
  for (const int32_t n : {0, 1, 33, 70}) tiles.Check({40, n}, 1);
  CompiledKernel several = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [a] dense
in   2 f32 [c] dense
s0 : f32 [a, b] = reduce add over c d (mul(in0[a, b, c, d], in2[c]))
s1 : f32 [a]    = exp(in1[a])
out  0 f32 [a, b, c, d] dense = mul(sub(in0[a, b, c, d], s0[a, b]), s1[a])
)",
                                   {{kUnbounded, kUnbounded, 4, 30}}, "outer_reduction batch=8");
  for (const int32_t n : {0, 1, 17, 30}) several.Check({3, 9, 3, n}, 1);
}

TEST_P(ColumnsTest, GroupNormWithChannelsLast) {
  CompiledKernel kernel = Compile(R"(dims a b c d
sizes n0
in   0 f32 [a, b, c, d] dense
in   1 f32 [c, d] dense
in   2 f32 [c] dense
par  0 f32
s0 : f32 [a, c, d]    = reduce add over b (in0[a, b, c, d])
s1 : f32 [a, c]       = reduce add over d (s0[a, c, d])
s2 : f32 [a, c]       = div(s1[a, c], cast<f32>(extent(n0)))
s3 : f32 [a, b, c, d] = sub(in0[a, b, c, d], s2[a, c])
s4 : f32 [a, c, d]    = reduce add over b (mul(s3[a, b, c, d], s3[a, b, c, d]))
s5 : f32 [a, c]       = reduce add over d (s4[a, c, d])
s6 : f32 [a, c]       = div(1, sqrt(add(div(s5[a, c], cast<f32>(extent(n0))), par0)))
out  0 f32 [a, b, c, d] dense = add(mul(mul(s3[a, b, c, d], s6[a, c]), in1[c, d]), in2[c])
out  1 f32 [a, c] dense = s2[a, c]
)",
                                  {{kUnbounded, 32768, kUnbounded, 4096, kUnbounded}}, "staged");
  EXPECT_EQ(FieldOf(kernel.schedule(), "collapsed", 0), 2);
  for (const int32_t n : {0, 1, 2, 3, 5, 16, 31, 64, 65}) {
    for (const int32_t groups : {1, 3, 8}) kernel.Check({2, 37, groups, n, 37 * n}, 1);
  }
  for (const int32_t n : {0, 1, 31, 32, 33, 1025, 2000}) kernel.Check({1, n, 2, 5, 5 * n}, 2);
  kernel.Check({0, 5, 4, 3, 15}, 3);
  kernel.Check({2, 5, 0, 3, 15}, 3);
}

TEST_P(ColumnsTest, AllTypes) {
  for (const std::string type : {"f64", "i32", "u8", "i64"}) {
    CompiledKernel kernel = Compile("dims a b\nin 0 " + type + " [a, b] dense\n" + "s0 : " + type +
                                        " [b] = reduce max over a (in0[a, b])\n" + "s1 : " + type +
                                        " [b] = reduce add over a (sub(in0[a, b], s0[b]))\n" +
                                        "out 0 " + type + " [a, b] dense = add(in0[a, b], s1[b])\n",
                                    {{1024, kUnbounded}});
    for (const int32_t n : {1, 9, 70, 300}) kernel.Check({35, n}, static_cast<uint32_t>(n));
  }
  for (const std::string type : {"f16", "bf16"}) {
    CompiledKernel kernel =
        Compile("dims a b\nin 0 " + type + " [a, b] dense\n" +
                    "s0 : f32 [b] = reduce max over a (in0[a, b])\n"
                    "s1 : bool [b] = reduce or over a (lt(s0[b], in0[a, b]))\n"
                    "out 0 " +
                    type + " [a, b] dense = select(s1[b], 0, sub(in0[a, b], s0[b]))\n",
                {{1024, kUnbounded}});
    for (const int32_t n : {1, 9, 70, 300}) kernel.Check({35, n}, static_cast<uint32_t>(n));
  }
}

// However many lanes a vector has.
TEST_P(ColumnsTest, LongColumnsOfNarrowTypes) {
  for (const std::string type : {"u8", "i8", "bool"}) {
    for (const int32_t columns : {200, 500, 900}) {
      CompiledKernel kernel =
          Compile("dims a b c\nin 0 " + type + " [a, b, c] dense\ns0 : " + type +
                      " [a, c] = reduce " + (type == "bool" ? "or" : "max") +
                      " over b (in0[a, b, c])\nout 0 " + type + " [a, c] dense = s0[a, c]\n",
                  {{2, 2000, columns}});
      for (const int32_t n : {columns - 1, columns}) kernel.Check({2, 1500, n}, 3);
    }
  }
}

// Their expressions share so much that no walk over them as trees ends.
TEST_P(ColumnsTest, FunctionsOfFunctions) {
  const char* const kMaximum = R"(dims a b
in 0 f32 [a, b] dense
s0 : f32 [b] = reduce max over a (tanh(log(erf(softplus(in0[a, b])))))
out 0 f32 [b] dense = s0[b]
)";
  CompiledKernel kernel = Compile(kMaximum, {{4096, 4096}}, "staged");
  for (const int32_t n : {1, 70, 300}) kernel.Check({35, n}, static_cast<uint32_t>(n));
}

INSTANTIATE_TEST_SUITE_P(Levels, ColumnsTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) {
                           return info.param == IsaLevel::kV3 ? "V3" : "V4";
                         });

}  // namespace
}  // namespace kiln
