// SPDX-License-Identifier: Apache-2.0
// Kernels with reductions against EvalKernel, bit by bit, at extents with every kind of tail.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/halide_gen/harness.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

class ReductionsTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  CompiledKernel Compile(const std::string& text, const std::string& scheduler = "",
                         SizeClass sizes = {}) {
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

TEST_P(ReductionsTest, SoftmaxOfRowsOfOneBlock) {
  CompiledKernel kernel = Compile(kSoftmax, "", {{kUnbounded, 4096}});
  EXPECT_STREQ(kernel.schedule().name(), "row_reduction");
  EXPECT_EQ(FieldOf(kernel.schedule(), "levels", 0), 1);
  for (int32_t n = 0; n <= 200; ++n) kernel.Check({2, n}, static_cast<uint32_t>(n));
  for (const int32_t n : {1000, 4095, 4096}) kernel.Check({3, n}, 1);
  kernel.Check({1000, 3}, 7);
}

TEST_P(ReductionsTest, SoftmaxOfLongRows) {
  CompiledKernel kernel = Compile(kSoftmax);
  EXPECT_EQ(FieldOf(kernel.schedule(), "levels", 0), 3);
  for (const int32_t n : {0, 1, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 10000})
    kernel.Check({2, n}, 1);
}

TEST_P(ReductionsTest, LayerNorm) {
  CompiledKernel kernel = Compile(kLayerNorm, "", {{kUnbounded, 4096}});
  EXPECT_STREQ(kernel.schedule().name(), "row_reduction");
  for (int32_t n = 1; n <= 200; n += 3) kernel.Check({3, n}, static_cast<uint32_t>(n));
  kernel.Check({50, 768}, 1);
}

TEST_P(ReductionsTest, RowsOfAFewElements) {
  for (const int32_t most : {1, 2, 3, 4, 5, 8}) {
    const std::string words = most > 4 ? "outer_vectorized" : "full_unroll";
    CompiledKernel softmax = Compile(kSoftmax, words, {{kUnbounded, most}});
    CompiledKernel norm =
        Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
in   2 f32 [c] dense
par  0 f32
s0 : f32 [a, b]    = reduce add over c (in0[a, b, c])
s1 : f32 [a, b, c] = sub(in0[a, b, c], mul(s0[a, b], par0))
s2 : f32 [a, b]    = reduce add over c (mul(s1[a, b, c], s1[a, b, c]))
s3 : f32 [a, b]    = div(1, sqrt(add(s2[a, b], par0)))
out  0 f32 [a, b, c] dense = add(mul(mul(s1[a, b, c], s3[a, b]), in1[b]), in2[c])
out  1 f32 [a, b] dense = s3[a, b]
)",
                most > 4 ? "row_reduction" : words, {{kUnbounded, kUnbounded, most}});
    EXPECT_EQ(FieldOf(softmax.schedule(), most > 4 ? "row" : "inner", 0), most);
    for (const int32_t n : {1, most}) {
      for (const int32_t rows : {1, 7, 8, 15, 16, 17, 100}) {
        softmax.Check({rows, n}, static_cast<uint32_t>(rows));
        norm.Check({3, rows, n}, static_cast<uint32_t>(rows));
      }
      softmax.Check({20000, n}, 1);
    }
  }
}

TEST_P(ReductionsTest, SmallTypesInRowsOfAFewElements) {
  for (const std::string type : {"u8", "i64", "f64", "bool"}) {
    const std::string op = type == "bool" ? "and" : "mul", other = type == "bool" ? "or" : "max";
    CompiledKernel kernel =
        Compile("dims a b\nin 0 " + type + " [a, b] dense\ns0 : " + type + " [a] = reduce " + op +
                    " over b (in0[a, b])\ns1 : " + type + " [a] = reduce " + other +
                    " over b (in0[a, b])\nout 0 " + type + " [a] dense = s0[a]\nout 1 " + type +
                    " [a] dense = s1[a]\n",
                "", {{kUnbounded, 3}});
    for (const int32_t n : {0, 1, 2, 3}) kernel.Check({37, n}, static_cast<uint32_t>(n));
  }
}

// Vectors run across rows where each element computes much, else along rows that fold together.
TEST_P(ReductionsTest, ShortRowsAcrossOrAbreast) {
  for (const int32_t most : {5, 9, 25, 33, 63}) {
    CompiledKernel softmax = Compile(kSoftmax, "", {{kUnbounded, most}});
    // The place of the maximum, and what a row and a column bring along.
    CompiledKernel place = Compile(R"(dims a b
in   0 f32 [a, b] dense
in   1 i32 [b] dense
in   2 f32 [a] dense
par  0 i32
s0 : f32 [a] = reduce max over b (mul(in0[a, b], in2[a]))
s1 : i32 [a] = reduce min over b (select(eq(s0[a], mul(in0[a, b], in2[a])), in1[b], par0))
out  0 i64 [a] dense = cast<i64>(s1[a])
out  1 f32 [a, b] dense = sub(in0[a, b], s0[a])
out  2 f32 [a] dense = s0[a]
)",
                                   "", {{kUnbounded, most}});
    // Elements of a row read at an index as well.
    CompiledKernel entropy = Compile(R"(dims a b
in   0 f32 [a, b] dense
in   1 i64 [a] dense
s0 : f32 [a] = reduce max over b (in0[a, b])
s1 : f32 [a] = reduce add over b (exp(sub(in0[a, b], s0[a])))
out  0 f32 [a] dense = sub(add(log(s1[a]), s0[a]), in0[a, [in1[a]]])
)",
                                     "", {{kUnbounded, most}});
    // Rows of an input that several rows share.
    CompiledKernel masked = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [a, c, d] dense
in   2 f32 [b, d] dense
s0 : f32 [a, b, c] = reduce max over d (add(in0[a, b, c, d], mul(in1[a, c, d], in2[b, d])))
out  0 f32 [a, b, c, d] dense = sub(add(in0[a, b, c, d], in1[a, c, d]), s0[a, b, c])
)",
                                    "", {{kUnbounded, kUnbounded, kUnbounded, most}});
    for (const int32_t n : {0, 1, 2, most / 2, most - 1, most}) {
      for (const int32_t rows : {1, 7, 8, 15, 16, 17, 100}) {
        softmax.Check({rows, n}, static_cast<uint32_t>(rows));
        place.Check({rows, n}, static_cast<uint32_t>(rows));
        if (n > 0) entropy.Check({rows, n}, static_cast<uint32_t>(rows));
        masked.Check({2, 3, rows, n}, static_cast<uint32_t>(rows));
      }
    }
    softmax.Check({20000, most}, 1);
  }
}

// Group norm of small images: scales of channels, of which a row has several, are tables along it.
TEST_P(ReductionsTest, InputsReadAtQuotients) {
  for (const int32_t most : {7, 40, 300, 5000}) {
    CompiledKernel kernel = Compile(R"(dims a b c
sizes n0
in   0 f32 [a, b, c] dense
in   1 f32 [b, n0] dense
in   2 f32 [n0] dense
par  0 f32
s0 : f32 [a, b]    = reduce add over c (in0[a, b, c])
s1 : f32 [a, b]    = mul(s0[a, b], par0)
s2 : f32 [a, b, c] = sub(in0[a, b, c], s1[a, b])
s3 : f32 [a, b]    = reduce add over c (mul(s2[a, b, c], in2[c/7]))
out  0 f32 [a, b, c] dense = add(mul(mul(s2[a, b, c], s3[a, b]), in1[b, c/7]), in2[c/7])
)",
                                    "", {{kUnbounded, 3, most, (most + 6) / 7}});
    EXPECT_STREQ(kernel.schedule().name(), "row_reduction");
    EXPECT_EQ(TextOf(kernel.schedule(), "expanded"), "1,2");
    for (const int32_t n : {1, 7, 8, 39, 40, 299, 5000}) {
      if (n > most) break;
      for (const int32_t a : {0, 1, 5, 6, 40}) kernel.Check({a, 3, n, (n + 6) / 7}, 1);
    }
  }
}

TEST_P(ReductionsTest, ShortRowsAndOuterDims) {
  for (const int32_t most : {1, 3, 4, 8, 13, 32, 150}) {
    CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [b] = reduce add over a c (in0[a, b, c])
s1 : f32 [b] = reduce max over a c (in0[a, b, c])
out  0 f32 [b] dense = s0[b]
out  1 f32 [b] dense = s1[b]
)",
                                    "staged", {{kUnbounded, kUnbounded, most}});
    EXPECT_EQ(FieldOf(kernel.schedule(), "inner_first", 0), 1);
    EXPECT_EQ(FieldOf(kernel.schedule(), "strided", 0), most <= 8 ? most : 0);
    for (const int32_t n : {0, 1, most - 1, most}) {
      for (const int32_t rows : {1, 16, 35}) kernel.Check({33, rows, n}, 1);
    }
  }
}

// What an index leads to is not read where the index is not, and neither is the index.
TEST_P(ReductionsTest, ReadNothingBehindTheirOperands) {
  for (const char* dims : {"[a]", "[b, a]"}) {
    const bool rows = dims[1] == 'b';
    CompiledKernel kernel = Compile(
        absl::StrCat("dims ", rows ? "b a" : "a", "\nsizes n0\n", "in 0 f32 [n0] dense\nin 1 i64 ",
                     dims, " dense\ns0 : f32 ", rows ? "[b]" : "[]",
                     " = reduce max over a (in0[[in1", dims, "]])\nout 0 f32 ", rows ? "[b]" : "[]",
                     " dense = s0", rows ? "[b]" : "[]", "\n"),
        rows ? "row_reduction" : "staged",
        {rows ? std::vector<int64_t>{8, 128, 64} : std::vector<int64_t>{128, 64}});
    for (const int32_t n : {1, 5, 64, 70, 100}) {
      kernel.Check(rows ? std::vector<int32_t>{3, n, 9} : std::vector<int32_t>{n, 9}, 1);
    }
  }
}

TEST_P(ReductionsTest, ShortRowsOfAnyType) {
  for (const std::string type : {"u8", "i16", "i64", "f64", "bool"}) {
    const std::string op = type == "bool" ? "and" : "add", other = type == "bool" ? "or" : "max";
    for (const int32_t most : {8, 13, 40}) {
      CompiledKernel kernel =
          Compile("dims a b\nin 0 " + type + " [a, b] dense\ns0 : " + type + " [a] = reduce " + op +
                      " over b (in0[a, b])\ns1 : " + type + " [a] = reduce " + other +
                      " over b (in0[a, b])\nout 0 " + type + " [a] dense = s0[a]\nout 1 " + type +
                      " [a] dense = s1[a]\nout 2 " + type + " [a, b] dense = in0[a, b]\n",
                  "row_reduction folded=16", {{kUnbounded, most}});
      for (const int32_t n : {0, 1, 5, most - 1, most})
        kernel.Check({37, n}, static_cast<uint32_t>(n));
    }
  }
}

TEST_P(ReductionsTest, GeneralGivesTheSameBitsAsRow) {
  CompiledKernel softmax = Compile(kSoftmax, "staged", {{kUnbounded, 4096}});
  CompiledKernel norm = Compile(kLayerNorm, "staged", {{kUnbounded, 16777216}});
  for (const int32_t n : {1, 5, 64, 100, 1000}) {
    softmax.Check({7, n}, 1);
    norm.Check({7, n}, 1);
  }
  norm.Check({2, 5000}, 1);
}

TEST_P(ReductionsTest, ColumnSum) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [b] = reduce add over a (in0[a, b])
out  0 f32 [b] dense = s0[b]
)");
  EXPECT_STREQ(kernel.schedule().name(), "staged");
  for (const int32_t rows : {0, 1, 2, 511, 512, 513, 1500}) {
    for (const int32_t n : {1, 7, 16, 33, 100}) kernel.Check({rows, n}, 1);
  }
}

TEST_P(ReductionsTest, FullSumAndMax) {
  CompiledKernel kernel = Compile(R"(dims a
in   0 f32 [a] dense
s0 : f32 [] = reduce add over a (in0[a])
s1 : f32 [] = reduce max over a (in0[a])
out  0 f32 [] dense = s0[]
out  1 f32 [] dense = s1[]
)");
  for (const int32_t n : {0, 1, 2, 63, 64, 65, 200, 4095, 4096, 4097, 10000, 70000})
    kernel.Check({n}, 1);
}

TEST_P(ReductionsTest, ReducesSeveralDimsInnermostFirst) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [b] = reduce add over a c (in0[a, b, c])
s1 : f32 [] = reduce min over a b c (in0[a, b, c])
out  0 f32 [b] dense = div(s0[b], s1[])
)",
                                  "", {{262144, 262144, 4096}});
  for (const int32_t n : {0, 1, 5, 64, 100}) {
    kernel.Check({3, 4, n}, 1);
    kernel.Check({600, 2, n}, 2);
    kernel.Check({0, 2, n}, 2);
  }
}

TEST_P(ReductionsTest, ReducesInEveryWay) {
  for (const std::string type : {"f32", "f64", "i32", "u8", "i64"}) {
    std::string text = "dims a b\nin 0 " + type + " [a, b] dense\n", outputs;
    int k = 0;
    for (const std::string op : {"add", "mul", "max", "min", "and", "or"}) {
      if (type[0] == 'f' && (op == "and" || op == "or")) continue;
      const std::string id = std::to_string(k++);
      text += "s" + id + " : " + type + " [a] = reduce " + op + " over b (in0[a, b])\n";
      outputs += "out " + id + " " + type + " [a] dense = s" + id + "[a]\n";
    }
    CompiledKernel kernel = Compile(text + outputs, "", {{kUnbounded, 4096}});
    EXPECT_STREQ(kernel.schedule().name(), "row_reduction");
    for (const int32_t n : {0, 1, 63, 64, 65, 300}) kernel.Check({3, n}, static_cast<uint32_t>(n));
  }
}

TEST_P(ReductionsTest, ElementsThatDoNotVaryCountEachTime) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a] dense
s0 : f32 [] = reduce add over a b (0x1.1p+0)
s1 : f32 [a] = reduce add over b (in0[a])
s2 : f32 [b] = reduce mul over a (0x1.1p+0)
out  0 f32 [] dense = s0[]
out  1 f32 [a] dense = s1[a]
out  2 f32 [b] dense = s2[b]
)",
                                  "", {{512, 4096}});
  for (const int32_t n : {0, 1, 64, 100, 300}) kernel.Check({3, n}, static_cast<uint32_t>(n));
}

TEST_P(ReductionsTest, LogicalReductions) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] dense
s0 : bool [a] = reduce and over b (lt(in0[a, b], 1))
s1 : bool [a] = reduce or over b (lt(in0[a, b], -1))
s2 : bool [b] = reduce and over a (lt(in0[a, b], 1))
out  0 bool [a] dense = xor(s0[a], s1[a])
out  1 bool [b] dense = s2[b]
)",
                                  "", {{512, 4096}});
  for (const int32_t n : {0, 1, 3, 64, 100}) kernel.Check({3, n}, static_cast<uint32_t>(n));
}

TEST_P(ReductionsTest, RowsWithOutputsOfBothRanks) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
s0 : f32 [a, b] = reduce add over c (in0[a, b, c])
s1 : f32 [a, b] = reduce max over c (in0[a, b, c])
out  0 f32 [a, b] dense = s0[a, b]
out  1 f32 [a, b, c] dense = sub(in0[a, b, c], s1[a, b])
out  2 f16 [a, b, c] dense = sub(in0[a, b, c], s0[a, b])
out  3 f32 [a, b] dense = s1[a, b]
)",
                                  "row_reduction");
  for (const int32_t n : {1, 16, 65, 300, 5000}) kernel.Check({2, 3, n}, static_cast<uint32_t>(n));
}

constexpr char kBothRanks[] = R"(dims a b
in   0 f16 [a, b] dense
in   1 f32 [a, b] dense
s0 : f32 [a] = reduce max over b (add(in0[a, b], in1[a, b]))
s1 : f32 [a] = exp(s0[a])
s2 : f32 [a, b] = exp(sub(add(in0[a, b], in1[a, b]), s1[a]))
s3 : f32 [a] = reduce add over b (s2[a, b])
out  0 f32 [a] dense = s3[a]
out  1 f16 [a, b] dense = mul(s2[a, b], s3[a])
)";

// Layer norm backward: rows, and sums down the same rows.
TEST_P(ReductionsTest, RowsAndReductionsDownThem) {
  const std::string text = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
in   2 f32 [b] dense
in   3 f32 [a] dense
par  0 f32
s0 : f32 [a, b] = mul(tanh(in1[a, b]), in3[a])
s1 : f32 [a, b] = mul(in0[a, b], in2[b])
s2 : f32 [a]    = reduce add over b (mul(s1[a, b], s0[a, b]))
s3 : f32 [a]    = reduce max over b (s1[a, b])
s4 : f32 [b]    = reduce add over a (mul(in0[a, b], s0[a, b]))
s5 : f32 [b]    = reduce min over a (in0[a, b])
out  0 f32 [a, b] dense = mul(sub(sub(s1[a, b], mul(s0[a, b], mul(s2[a], par0))), s3[a]), in3[a])
out  1 f32 [b] dense = add(s4[b], in2[b])
out  2 f16 [b] dense = s5[b]
out  3 f32 [a, b] dense = s0[a, b]
)";
  CompiledKernel kernel = Compile(text, "", {{kUnbounded, 4096}});
  EXPECT_STREQ(kernel.schedule().name(), "row_and_column");
  EXPECT_EQ(FieldOf(kernel.schedule(), "fused", 0), 1);
  for (const int32_t rows : {0, 1, 31, 32, 33, 64, 100, 1025}) {
    for (const int32_t columns : {0, 1, 7, 64, 100, 257}) {
      kernel.Check({rows, columns}, static_cast<uint32_t>(rows + columns));
    }
  }
  kernel.Check({33, 4096}, 1);
  kernel.Check({2000, 300}, 1);
  CompiledKernel any = Compile(text);
  for (const int32_t columns : {3, 1000, 5000}) any.Check({70, columns}, 1);
  for (const int32_t columns : {6, 100}) {
    CompiledKernel narrow = Compile(text, "", {{kUnbounded, columns}});
    for (const int32_t rows : {0, 1, 33, 1000}) narrow.Check({rows, columns}, 1);
  }
}

// Rows fold together, or take each stage by several in turn.
TEST_P(ReductionsTest, ShortRowsTakeEachStageBySeveral) {
  const auto check = [&](const std::string& text, int32_t most) {
    CompiledKernel kernel =
        Compile(text, most == 200 ? "row_reduction batch=8" : "row_reduction folded=16",
                {{kUnbounded, most}});
    for (const int32_t n : {0, 1, 15, 33, 50, 64, 97, 131, 200}) {
      if (n > most) break;
      for (const int32_t rows : {0, 1, 2, 7, 8, 9, 331}) {
        kernel.Check({rows, n}, static_cast<uint32_t>(rows + n));
      }
    }
    kernel.Check({20000, 31}, 1);  // several tasks
  };
  for (const std::string text : {kSoftmax, kLayerNorm, kBothRanks})
    for (const int32_t most : {48, 200}) check(text, most);
}

TEST_P(ReductionsTest, ShortRowsHaveFewAccumulators) {
  for (const std::string text : {kSoftmax, kLayerNorm, kBothRanks}) {
    for (const auto& [rows, row] :
         std::vector<std::pair<int64_t, int64_t>>{{9, 16}, {9, 32}, {99, 48}}) {
      CompiledKernel kernel = Compile(text, "", {{rows, row}});
      EXPECT_EQ(FieldOf(kernel.schedule(), "accumulators", 64), row);
      for (int32_t n = 0; n <= row; ++n) kernel.Check({9, n}, static_cast<uint32_t>(n));
    }
  }
}

// Expensive elements are computed in whole vectors before they meet the accumulators, of which a
// row shorter than a vector has fewer.
TEST_P(ReductionsTest, ShortRowsOfExpensiveElements) {
  constexpr char kText[] =
      "dims a b c\nsizes n0\nin 0 f32 [a, b, c] dense\nin 1 f32 [a, n0, c] dense\n"
      "in 2 i64 [a, c] dense\n"
      "s0 : f32 [a, c] = reduce max over b (in0[a, b, c])\n"
      "s1 : f32 [a, c] = reduce add over b (exp(sub(in0[a, b, c], s0[a, c])))\n"
      "s2 : f32 [] = reduce add over a c (neg(sub(sub(in1[a, [in2[a, c]], c], s0[a, c]), "
      "log(s1[a, c]))))\n"
      "out 0 f32 [] dense = s2[]\n";
  for (const int64_t row : {1, 2, 3, 4, 7, 8, 15, 16, 17}) {
    CompiledKernel kernel = Compile(kText, "", {{kUnbounded, kUnbounded, row, kUnbounded}});
    for (int32_t n = 1; n <= row; ++n) kernel.Check({3, 5, n, 5}, static_cast<uint32_t>(n));
  }
}

TEST_P(ReductionsTest, SixteenBitRows) {
  for (const std::string type : {"f16", "bf16"}) {
    CompiledKernel kernel = Compile("dims a b\nin 0 " + type + " [a, b] dense\n" +
                                        "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
                                        "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
                                        "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
                                        "out 0 " +
                                        type + " [a, b] dense = div(s1[a, b], s2[a])\n",
                                    "", {{kUnbounded, 4096}});
    for (const int32_t n : {1, 7, 16, 33, 100, 1000})
      kernel.Check({3, n}, static_cast<uint32_t>(n));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ReductionsTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) {
                           return info.param == IsaLevel::kV3 ? "V3" : "V4";
                         });

}  // namespace
}  // namespace kiln
