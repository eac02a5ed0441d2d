// SPDX-License-Identifier: Apache-2.0
// Kernels without, or with small, reductions: how elements are addressed, against EvalKernel, bit
// by bit, at extents with every kind of tail.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/halide_gen/harness.h"
#include "tests/schedule/fields.h"

namespace kiln {
namespace {

class ElementsTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  CompiledKernel Compile(const std::string& text, const std::string& scheduler = "",
                         SizeClass sizes = {}) {
    return CompiledKernel("kernel v1 math 1\n" + text, GetParam(), scheduler, std::move(sizes));
  }
};

constexpr char kProduct[] = R"(dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
in   2 f32 [a] dense
out  0 f32 [a] dense = mul(mul(in0[a], in1[a]), in2[a])
)";

TEST_P(ElementsTest, ProductOfThree) {
  CompiledKernel kernel = Compile(kProduct);
  EXPECT_STREQ(kernel.schedule().name(), "pointwise");
  EXPECT_EQ(kernel.schedule().in_place.size(), 3u);
  for (int32_t n = 0; n <= 200; ++n) kernel.Check({n}, static_cast<uint32_t>(n));
  for (const int32_t n : {4095, 4096, 4097, 10000, 32767, 32768, 32769, 100000})
    kernel.Check({n}, 1);
}

// A conversion of a conversion is not one conversion: the first saturates.
TEST_P(ElementsTest, NarrowIntegersOfFloatsAreShiftedAndConvertedOn) {
  CompiledKernel kernel = Compile(R"(dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
out  0 i16 [a] dense = shr(cast<i16>(in0[a]), cast<i16>(in1[a]))
out  1 i8 [a] dense = shr(cast<i8>(in0[a]), cast<i8>(in1[a]))
out  2 u8 [a] dense = shl(cast<u8>(in0[a]), cast<u8>(in1[a]))
out  3 i8 [a] dense = cast<i8>(cast<u8>(in0[a]))
out  4 u16 [a] dense = cast<u16>(cast<i16>(in0[a]))
out  5 f32 [a] dense = add(round(in0[a]), trunc(in1[a]))
)");
  for (const int32_t n : {1, 15, 100, 5000}) kernel.Check({n}, static_cast<uint32_t>(n));
}

// Adam: each of three outputs may lie over the input that it replaces.
TEST_P(ElementsTest, SeveralOutputsAreWrittenOverTheirInputs) {
  CompiledKernel kernel = Compile(R"(dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
in   2 f32 [a] dense
in   3 f32 [a] dense
par  0 f32
s0 : f32 [a] = add(mul(in0[a], par0), in1[a])
s1 : f32 [a] = add(mul(in1[a], in1[a]), in2[a])
out  0 f32 [a] dense = sub(in3[a], div(s0[a], sqrt(s1[a])))
out  1 f32 [a] dense = s1[a]
out  2 f32 [a] dense = s0[a]
)");
  // in1 is read by the last output, in2 by the second, in3 by the first.
  const std::vector<std::pair<int32_t, int32_t>> want = {{0, 2}, {1, 2}, {2, 2}, {2, 1},
                                                         {3, 2}, {3, 1}, {3, 0}};
  EXPECT_EQ(kernel.schedule().in_place, want);
  for (const int32_t n : {1, 15, 16, 17, 63, 64, 65, 100, 5000, 100000})
    kernel.Check({n}, static_cast<uint32_t>(n));
}

TEST_P(ElementsTest, GeneralComputesMaps) {
  CompiledKernel kernel = Compile(kProduct, "pointwise");
  for (const int32_t n : {1, 7, 64, 100, 40000}) kernel.Check({n}, 1);
}

TEST_P(ElementsTest, BroadcastsInAllDims) {
  CompiledKernel kernel = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b] dense
in   2 f32 [a, c] dense
in   3 f32 [] dense
out  0 f32 [a, b, c] dense = add(mul(in0[a, b, c], in1[b]), sub(in2[a, c], in3[]))
)");
  EXPECT_STREQ(kernel.schedule().name(), "pointwise");
  for (int32_t n = 1; n < 70; n += 3) kernel.Check({3, 5, n}, static_cast<uint32_t>(n));
  kernel.Check({100, 9, 1}, 1);
  kernel.Check({2, 300, 130}, 1);
}

// What a row has one of is loaded before the loop over it, if the row has elements at all.
TEST_P(ElementsTest, ValuesOfARow) {
  const char* const kQuantised = R"(dims a b c
in   0 u8 [a, b, c] dense
in   1 u8 [b] dense
in   2 f32 [b] dense
out  0 f32 [a, b, c] dense = mul(sub(cast<f32>(in0[a, b, c]), cast<f32>(in1[b])), in2[b])
out  1 f32 [a, b, c] dense = guard(lt(index(c), i64:3), in2[b], cast<f32>(in0[a, b, c]))
)";
  CompiledKernel kernel = Compile(kQuantised);
  for (const int32_t c : {0, 1, 16, 63, 64, 65, 200})
    kernel.Check({3, 5, c}, static_cast<uint32_t>(c));
  kernel.Check({3, 0, 70}, 1);
  kernel.Check({0, 4, 70}, 2);
}

TEST_P(ElementsTest, InnermostDimOfAFewElements) {
  const std::string text = R"(dims a b c
sizes n0
in   0 f32 [a, b, n0] dense
in   1 f32 [b] dense
in   2 u8 [a, c, b] dense
in   3 f32 [c] dense
s0 : f32 [a, b] = mul(in0[a, b, [i64:0]], in1[b])
out  0 f32 [a, b, c] dense = guard(lt(index(c), i64:1), s0[a, b], in0[a, b, c])
out  1 f32 [a, b, c] dense = add(cast<f32>(in2[a, c, b]), in3[c])
)";
  for (const int64_t most : {1, 2, 3, 4}) {
    CompiledKernel kernel = Compile(text, "", {{kUnbounded, kUnbounded, most, most}});
    EXPECT_EQ(FieldOf(kernel.schedule(), "inner", 0), most);
    for (int32_t c = 1; c <= most; ++c) {
      for (const int32_t n : {1, 15, 16, 17, 100}) kernel.Check({3, n, c, c}, 1);
    }
  }
  CompiledKernel pairs = Compile(
      "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\nin 2 f32 [b] dense\n"
      "out 0 f32 [a, b] dense = add(mul(in0[a, b], in1[a]), in2[b])\n",
      "", {{kUnbounded, 3}});
  EXPECT_EQ(FieldOf(pairs.schedule(), "inner", 0), 3);
  for (const int32_t n : {1, 15, 16, 17, 1000, 40000}) {
    pairs.Check({n, 3}, 1);
    pairs.Check({n, 2}, 1);
  }
}

// Conditions of a few elements, repeated along the middle dim.
TEST_P(ElementsTest, ShortRowsOfConditionsAreRepeated) {
  for (const int32_t most : {1, 2, 3, 4, 8}) {
    for (const std::string type : {"bool", "u8", "f32"}) {
      const std::string zero = type == "f32" ? "0" : type + ":0";
      const std::string value = type == "bool" ? "in0[a, c]" : "ne(in0[a, c], " + zero + ")";
      for (const std::string& out :
           {"bool [a, b, c] dense = " + value, "f32 [a, b, c] dense = cast<f32>(" + value + ")",
            "u8 [a, b, c] dense = select(" + value + ", u8:7, u8:9)"}) {
        CompiledKernel kernel =
            Compile("dims a b c\nin 0 " + type + " [a, c] dense\nout 0 " + out + "\n", "",
                    {{kUnbounded, kUnbounded, most}});
        for (const int32_t b : {1, 63, 64, 152}) kernel.Check({7, b, most}, 1);
      }
    }
  }
}

TEST_P(ElementsTest, ShortRowsLieWholeInVectors) {
  for (const int64_t most : {1, 2, 5, 8, 12, 15}) {
    for (const std::string type : {"f32", "u8", "i64", "f64"}) {
      CompiledKernel kernel = Compile(
          "dims a b c\nin 0 " + type + " [a, b, c] dense\nin 1 " + type + " [a, b] dense\nin 2 " +
              type + " [a, c] dense\nin 3 f32 [b] dense\n" + "s0 : " + type +
              " [a, b, c] = add(mul(in0[a, b, c], in1[a, b]), in2[a, c])\n" + "out 0 " + type +
              " [a, b, c] dense = select(lt(in1[a, b], s0[a, b, c]), "
              "s0[a, b, c], in2[a, c])\n" +
              "out 1 f32 [a, b, c] dense = mul(in3[b], cast<f32>(index(c)))\n",
          "full_unroll packed=1", {{kUnbounded, kUnbounded, most}});
      for (const int32_t b : {1, 7, 15, 16, 17, 100})
        kernel.Check({3, b, static_cast<int32_t>(most)}, 1);
      kernel.Check({3, 20, std::max(1, static_cast<int32_t>(most) - 1)}, 1);
      kernel.Check({3, 20, 0}, 1);
    }
  }
}

// The tables of inputs over some of the dims begin anew in vectors, and wherever rows do.
TEST_P(ElementsTest, ShortRowsAreCollapsed) {
  CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [c] dense
in   2 u8 [b, d] dense
in   3 f32 [d] dense
s0 : f32 [c] = neg(in1[c])
out  0 f32 [a, b, c, d] dense = add(mul(in0[a, b, c, d], s0[c]), sub(cast<f32>(in2[b, d]), in3[d]))
out  1 f64 [a, b, c, d] dense = cast<f64>(add(in0[a, b, c, d], in1[c]))
)",
                                  "pointwise collapsed=4", {{kUnbounded, 4, 20, 7}});
  EXPECT_EQ(TextOf(kernel.schedule(), "expanded"), "1,2,3");
  for (const int32_t d : {1, 2, 7}) {
    for (const int32_t c : {1, 3, 20}) kernel.Check({5, 4, c, d}, static_cast<uint32_t>(c));
  }
  kernel.Check({0, 4, 3, 3}, 1);
  kernel.Check({300, 4, 20, 7}, 1);
  CompiledKernel rows = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [b] dense
in   2 f32 [d] dense
out  0 f32 [a, b, c, d] dense = add(mul(in0[a, b, c, d], in1[b]), in2[d])
)",
                                "", {{kUnbounded, kUnbounded, 20, 7}});
  EXPECT_EQ(FieldOf(rows.schedule(), "collapsed", 1), 2);
  for (const int32_t c : {1, 3, 20}) rows.Check({5, 4, c, 7}, static_cast<uint32_t>(c));
}

TEST_P(ElementsTest, VectorsAcrossRowsRunAlongSeveralDims) {
  CompiledKernel kernel = Compile(R"(dims a b c d
sizes n0
in   0 f32 [a, b, c, n0] dense
in   1 f32 [c] dense
in   2 f32 [b, d] dense
s0 : f32 [a, b, c] = mul(in0[a, b, c, [i64:0]], in1[c])
out  0 f32 [a, b, c, d] dense = guard(lt(index(d), i64:1), s0[a, b, c], in2[b, d])
)",
                                  "", {{kUnbounded, 9, 7, 2, 2}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "vectorized", 1), 3);
  EXPECT_EQ(TextOf(kernel.schedule(), "expanded"), "1,2");
  for (const int32_t n : {1, 2, 17, 200}) kernel.Check({n, 9, 7, 2, 2}, 1);
  kernel.Check({17, 3, 5, 2, 1}, 1);
  kernel.Check({17, 3, 5, 1, 1}, 1);
  CompiledKernel outer = Compile(R"(dims a b c d
in   0 f32 [a, b, c, d] dense
in   1 f32 [c] dense
in   2 f32 [a] dense
out  0 f32 [a, b, c, d] dense = guard(lt(index(d), i64:1), mul(in0[a, b, c, d], in1[c]), in2[a])
)",
                                 "", {{kUnbounded, 40, 7, 3}});
  EXPECT_EQ(FieldOf(outer.schedule(), "vectorized", 1), 2);
  for (const int32_t n : {1, 17, 40}) outer.Check({3, n, 7, 3}, 1);
}

TEST_P(ElementsTest, ShortRowsInAnotherOrder) {
  CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, c, b, d] dense
in   1 f32 [b] dense
in   2 f32 [a, c, d] dense
out  0 f32 [a, b, c, d] dense = add(mul(in0[a, c, b, d], in1[b]), in2[a, c, d])
)",
                                  "", {{kUnbounded, kUnbounded, kUnbounded, 40}});
  EXPECT_EQ(FieldOf(kernel.schedule(), "order", -1), 1);
  for (const int32_t d : {1, 16, 17, 33, 40}) {
    for (const int32_t b : {1, 16, 17, 100}) kernel.Check({3, b, 37, d}, static_cast<uint32_t>(b));
  }
  CompiledKernel two = Compile(
      "dims a b c\nin 0 f32 [b, a, c] dense\nout 0 f32 [a, b, c] dense = neg(in0[b, a, c])\n", "",
      {{kUnbounded, kUnbounded, 6}});
  EXPECT_EQ(FieldOf(two.schedule(), "order", -1), 0);
  for (const int32_t a : {1, 16, 17, 1000}) two.Check({a, 70, 6}, 1);
}

TEST_P(ElementsTest, SeveralOutputsOverTheirInputs) {
  CompiledKernel kernel = Compile(R"(dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
in   2 f32 [a] dense
s0 : f32 [a] = add(in1[a], in2[a])
out  0 f32 [a] dense = sub(in0[a], sqrt(s0[a]))
out  1 f32 [a] dense = s0[a]
out  2 f32 [a] dense = mul(in2[a], in2[a])
)");
  EXPECT_EQ(kernel.schedule().in_place, (std::vector<std::pair<int32_t, int32_t>>{
                                            {0, 2}, {0, 1}, {0, 0}, {1, 2}, {1, 1}, {2, 2}}));
  for (const int32_t n : {1, 7, 64, 100, 40000}) kernel.Check({n}, static_cast<uint32_t>(n));
}

TEST_P(ElementsTest, TransposedReadAndStore) {
  CompiledKernel read =
      Compile("dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\n");
  CompiledKernel store =
      Compile("dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [b, a] dense = neg(in0[a, b])\n");
  EXPECT_STREQ(store.schedule().name(), "staged");
  for (const int32_t n : {1, 8, 33, 100}) {
    read.Check({17, n}, 1);
    store.Check({17, n}, 1);
  }
}

TEST_P(ElementsTest, TurnsInputsInTiles) {
  CompiledKernel kernel = Compile(R"(dims a b c d
in   0 f32 [a, d, b, c] dense
in   1 f32 [d] dense
in   2 u8 [a, d, c] dense
in   3 f32 [a, b, c, d] dense
out  0 f32 [a, b, c, d] dense = add(mul(in0[a, d, b, c], in1[d]), add(in3[a, b, c, d], cast<f32>(in2[a, d, c])))
)");
  EXPECT_EQ(FieldOf(kernel.schedule(), "along", -1), 2);
  for (const int32_t n : {1, 7, 8, 9, 16, 33}) {
    for (const int32_t m : {1, 15, 16, 17, 50})
      kernel.Check({2, 3, n, m}, static_cast<uint32_t>(n));
  }
  CompiledKernel several = Compile(R"(dims a b c d
in   0 f32 [a, d, b, c] dense
in   1 f32 [a, c] dense
in   2 f32 [a, b, c, d] dense
out  0 f32 [a, b, c, d] dense = add(mul(in0[a, d, b, c], in1[a, c]), in2[a, b, c, d])
)",
                                   "transpose dims=2", {{kUnbounded, kUnbounded, 7, kUnbounded}});
  for (const int32_t b : {1, 3, 7, 50}) {
    for (const int32_t d : {1, 16, 17, 50}) several.Check({2, b, 7, d}, static_cast<uint32_t>(b));
  }
  CompiledKernel reversed = Compile(
      "dims a b c\nin 0 f32 [c, b, a] dense\nin 1 f32 [b] dense\nout 0 f32 [a, b, c] dense = "
      "sub(in0[c, b, a], in1[b])\n",
      "transpose dims=2", {{5, kUnbounded, kUnbounded}});
  for (const int32_t b : {1, 3, 8, 50}) {
    for (const int32_t a : {1, 5}) reversed.Check({a, b, 40}, static_cast<uint32_t>(b));
  }
  CompiledKernel tiny = Compile(
      "dims a b c d e\nin 0 f32 [a, e, d, c, b] dense\nin 1 f32 [c] dense\nout 0 f32 [a, b, c, d, "
      "e] dense = sub(in0[a, e, d, c, b], in1[c])\n",
      "transpose dims=3", {{kUnbounded, 5, 2, kUnbounded, kUnbounded}});
  for (const int32_t b : {1, 2, 4, 5}) {
    for (const int32_t c : {1, 2}) tiny.Check({3, b, c, 9, 18}, static_cast<uint32_t>(b));
  }
  CompiledKernel few = Compile(
      "dims a b c\nin 0 f32 [a, c, b] dense\nout 0 f32 [a, b, c] dense = neg(in0[a, c, b])\n",
      "transpose columns=64", {{kUnbounded, 16, kUnbounded}});
  for (const int32_t b : {1, 8, 9, 16}) {
    for (const int32_t c : {1, 130, 1024, 1100}) few.Check({2, b, c}, static_cast<uint32_t>(b));
  }
  CompiledKernel flat = Compile(
      "dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\nout 1 f64 [a, b] "
      "dense = cast<f64>(in0[b, a])\n");
  EXPECT_EQ(FieldOf(flat.schedule(), "along", -1), 0);
  for (const int32_t n : {1, 8, 100, 600}) flat.Check({n, 4 * n + 3}, 1);
}

TEST_P(ElementsTest, ReadsTinyStridesByShuffles) {
  CompiledKernel kernel = Compile(
      "dims a b c\nin 0 u8 [a, c, b] dense\nin 1 f32 [b] dense\nout 0 f32 [a, b, c] dense = "
      "sub(cast<f32>(in0[a, c, b]), in1[b])\n",
      "deinterleave channels=3 together=1", {{kUnbounded, 3, kUnbounded}});
  for (const int32_t b : {0, 1, 2, 3}) {
    for (const int32_t n : {0, 1, 16, 17, 100, 333}) kernel.Check({4, b, n}, 1);
  }
  kernel.Check({1, 3, 30011}, 1);
  CompiledKernel short_rows = Compile(
      "dims a b c\nin 0 u8 [b, c, a] dense\nin 1 f32 [a] dense\nout 0 f32 [a, b, c] dense = "
      "sub(cast<f32>(in0[b, c, a]), in1[a])\n",
      "deinterleave channels=4 together=0", {{4, kUnbounded, 1000}});
  for (const int32_t a : {1, 4}) {
    for (const int32_t n : {1, 16, 63, 64, 100, 1000}) short_rows.Check({a, 3, n}, 1);
  }
  // An input that the output takes the place of is read once only.
  CompiledKernel in_place = Compile(
      "dims a b c\nin 0 u8 [a, c, b] dense\nin 1 f32 [a, b, c] dense\nout 0 f32 [a, b, c] dense = "
      "sub(cast<f32>(in0[a, c, b]), in1[a, b, c])\n",
      "", {{kUnbounded, 3, kUnbounded}});
  EXPECT_EQ(FieldOf(in_place.schedule(), "channels", 0), 3);
  EXPECT_FALSE(in_place.schedule().in_place.empty());
  for (const int32_t n : {1, 16, 17, 100}) in_place.Check({4, 3, n}, 1);
}

TEST_P(ElementsTest, RunsRowsInPieces) {
  CompiledKernel rotary = Compile(R"(dims a b c
sizes n0 n1
in   0 f32 [a, b, n0] dense
in   1 f32 [b, c] dense
in   2 f32 [a, b, c] dense
out  0 f32 [a, b, c] dense = add(mul(guard(lt(index(c), extent(n1)), neg(in0[a, b, c+|n1|]), guard(le(extent(n1), index(c)), in0[a, b, c-|n1|], 0)), in1[b, c]), in2[a, b, c])
)");
  EXPECT_EQ(FieldOf(rotary.schedule(), "segments", 0), 1);
  for (const int32_t half : {1, 3, 16, 32, 65}) rotary.Check({3, 5, 2 * half, 2 * half, half}, 1);
  CompiledKernel padded = Compile(R"(dims a
sizes n0
in   0 f32 [n0] dense
out  0 f32 [a] dense = guard(and(le(i64:3, index(a)), lt(index(a), add(extent(n0), i64:3))), in0[a-3], 1)
out  1 f32 [a] dense = guard(and(le(i64:3, index(a)), lt(index(a), add(extent(n0), i64:3))), neg(in0[a-3]), 7)
)");
  for (const int32_t n : {1, 2, 5, 16, 100, 40000}) padded.Check({n + 8, n}, 1);
  CompiledKernel thirds = Compile(R"(dims a b
sizes n0 n1
in   0 f32 [a, n0] dense
in   1 f32 [a, n0] dense
in   2 f32 [a, n1] dense
out  0 f32 [a, b] dense = guard(lt(index(b), extent(n0)), in0[a, b], guard(and(le(extent(n0), index(b)), lt(index(b), mul(extent(n0), i64:2))), in1[a, b-|n0|], guard(le(mul(extent(n0), i64:2), index(b)), in2[a, b-2*|n0|], 0)))
)");
  EXPECT_EQ(FieldOf(thirds.schedule(), "segments", 0), 2);
  for (const int32_t n : {0, 1, 17, 64}) thirds.Check({9, 2 * n + 5, n, 5}, 1);
}

TEST_P(ElementsTest, RunsShortRowsInVectorsOverPieces) {
  CompiledKernel rotary = Compile(R"(dims a b c
sizes n0 n1
in   0 f32 [a, b, n0] dense
in   1 f32 [b, c] dense
in   2 f32 [a, b, c] dense
out  0 f32 [a, b, c] dense = add(mul(guard(lt(index(c), extent(n1)), neg(in0[a, b, c+|n1|]), guard(le(extent(n1), index(c)), in0[a, b, c-|n1|], 0)), in1[b, c]), in2[a, b, c])
)",
                                  "memory_order order=1 segments=1", {{40, 50, 14, 14, 7}});
  EXPECT_EQ(FieldOf(rotary.schedule(), "order", -1), 1);
  for (const int32_t half : {0, 1, 5, 7, 16, 40}) rotary.Check({3, 5, 2 * half, 2 * half, half}, 1);
  // A row that is looked up, narrow types, two outputs.
  CompiledKernel three = Compile(R"(dims a b
sizes n0 n1
in   0 u8 [a, n0] dense
in   1 u8 [n1, n0] dense
in   2 i32 [a] dense
out  0 u8 [a, b] dense = guard(lt(index(b), extent(n0)), in0[a, b], guard(and(le(extent(n0), index(b)), lt(index(b), mul(extent(n0), i64:2))), in1[[in2[a]], b-|n0|], guard(le(mul(extent(n0), i64:2), index(b)), u8:9, u8:0)))
out  1 u8 [a, b] dense = guard(and(le(extent(n0), index(b)), lt(index(b), mul(extent(n0), i64:2))), in0[a, b-|n0|], u8:3)
)",
                                 "memory_order segments=2", {{1000, 15, 5, 100}});
  for (const int32_t n : {1, 5, 7, 33}) three.Check({9, 3 * n, n, 4}, 1);
  CompiledKernel padded = Compile(R"(dims a b
sizes n0
in   0 f16 [a, n0] dense
out  0 f16 [a, b] dense = guard(and(le(i64:1, index(b)), lt(index(b), add(extent(n0), i64:1))), mul(in0[a, b-1], in0[a, b-1]), 1)
)",
                                  "memory_order order=0 segments=2", {{1000, 12, 10}});
  EXPECT_EQ(FieldOf(padded.schedule(), "order", -1), 0);
  for (const int32_t n : {0, 1, 10, 15, 70}) padded.Check({9, n + 2, n}, 1);
}

TEST_P(ElementsTest, RunsLongChainsInLinks) {
  CompiledKernel chain = Compile(R"(dims a
in   0 f32 [a] dense
par  0 f32
out  0 f32 [a] dense = add(mul(tanh(log(add(exp(tanh(mul(sin(cos(log(add(exp(in0[a]), par0)))), in0[a]))), 1))), cast<f32>(index(a))), sigmoid(tanh(erf(in0[a]))))
)");
  EXPECT_GT(FieldOf(chain.schedule(), "parts", 0), 2);
  for (const int32_t n : {0, 1, 15, 16, 100, 255, 256, 257, 511, 513, 5000, 40000}) {
    chain.Check({n}, static_cast<uint32_t>(n));
  }
  CompiledKernel rows = Compile(R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [c] dense
in   2 bf16 [a, b] dense
out  0 f16 [a, b, c] dense = add(select(lt(tanh(sin(exp(cos(add(erf(exp(in0[a, b, c])), in1[c]))))), in2[a, b]), 3, 5), exp(sigmoid(in1[c])))
)");
  EXPECT_GT(FieldOf(rows.schedule(), "parts", 0), 2);
  for (const int32_t n : {0, 1, 17, 256, 300, 1000}) rows.Check({3, 2, n}, 1);
  rows.Check({70, 9, 260}, 1);
}

TEST_P(ElementsTest, StridedOperands) {
  CompiledKernel kernel = Compile(R"(dims a b
in   0 f32 [a, b] strided
in   1 f32 [a, b] rows
in   2 f32 [b] strided
out  0 f32 [a, b] rows = add(in0[a, b], in1[a, b])
out  1 f32 [a, b] strided = mul(in0[a, b], in2[b])
)");
  for (const int32_t n : {1, 8, 33, 100}) kernel.Check({17, n}, 1);
}

TEST_P(ElementsTest, PadsAndConcatenatesByGuards) {
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

// Vectors run across the axis of the concat, element by element.
// An extent that no operand has may be any.
TEST_P(ElementsTest, CutsRowsAtMultiplesBeyond32Bits) {
  CompiledKernel kernel = Compile(R"(dims a b
sizes n
in   0 f32 [a, b] dense
out  0 f32 [a, b] dense = guard(lt(index(b), mul(extent(n), i64:2)), in0[a, b], f32:1)
)");
  for (const int32_t n : {7, 1 << 30}) kernel.Check({3, 50, n}, 1);
}

TEST_P(ElementsTest, FindsElementsOfOnePartOfAConcat) {
  CompiledKernel kernel = Compile(R"(dims a b c
sizes n0 n1
in   0 f32 [b, n0, c] dense
in   1 f32 [b, n1] dense
in   2 f32 [a] dense
s0 : f32 [a, b, c] = mul(guard(lt(index(a), extent(n0)), in0[b, a, c], guard(le(extent(n0), index(a)), in1[b, a-|n0|], 0)), in2[a])
s1 : f32 [a, b]    = reduce add over c (mul(s0[a, b, c], s0[a, b, c]))
out  0 f32 [a, b] dense = sqrt(s1[a, b])
)");
  for (const int32_t n : {1, 15, 33}) {
    kernel.Check({n + 5, 37, 2, n, 5}, 1);
    kernel.Check({n + 3, 16, 2, 3, n}, 2);
  }
}

TEST_P(ElementsTest, AffineDividedAndLoadedIndices) {
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
  for (const int32_t n : {1, 8, 50})
    kernel.Check({4, n, 2 * n + 60, 3, 5}, static_cast<uint32_t>(n));
}

TEST_P(ElementsTest, LoadedIndicesOfUnsignedTypes) {
  for (const char* type : {"u8", "u16", "u32", "u64"}) {
    CompiledKernel kernel =
        Compile(absl::StrCat("dims a\nsizes n0\nin 0 f32 [n0] dense\nin 1 ", type,
                             " [a] dense\nout 0 f32 [a] dense = in0[[in1[a]]]\n"));
    for (const int32_t n : {1, 8, 50, 300}) kernel.Check({n, 150}, static_cast<uint32_t>(n));
  }
}

TEST_P(ElementsTest, StagesReadAtOtherElements) {
  const std::string text = R"(dims a b
sizes n0
in   0 f32 [n0] dense
s0 : f32 [b] = exp(in0[b])
s1 : f32 [b] = mul(s0[b/2], in0[b+1])
s2 : f32 [] = reduce add over b (s1[b])
out  0 f32 [a, b] dense = add(s1[a], mul(s0[b/3], s2[]))
)";
  CompiledKernel kernel = Compile(text);
  EXPECT_STREQ(kernel.schedule().name(), "staged");
  kernel.Check({20, 20, 21}, 1);
  kernel.Check({3, 77, 78}, 2);
  CompiledKernel maps = Compile(R"(dims a
sizes n0
in   0 f32 [n0] dense
s0 : f32 [a] = exp(in0[a])
s1 : f32 [a] = add(s0[a/2], s0[a/3])
out  0 f32 [a] dense = add(s1[a/2], s1[a])
)");
  EXPECT_STREQ(maps.schedule().name(), "pointwise");
  maps.Check({100, 100}, 1);
}

TEST_P(ElementsTest, ScalarsAndCoordinates) {
  CompiledKernel scalar =
      Compile("in 0 f32 [] dense\npar 0 f32\nout 0 f32 [] dense = exp(mul(in0[], par0))\n");
  scalar.Check({}, 1);
  std::string squares = "in 0 i32 [] dense\ns0 : i32 [] = mul(in0[], in0[])\n";
  for (int i = 1; i < 40; ++i)
    absl::StrAppend(&squares, "s", i, " : i32 [] = mul(s", i - 1, "[], s", i - 1, "[])\n");
  Compile(squares + "out 0 i32 [] dense = s39[]\n").Check({}, 1);
  Compile("dims a\n" + squares + "out 0 i32 [a] dense = add(s39[], cast<i32>(index(a)))\n")
      .Check({21}, 1);
  CompiledKernel coordinates = Compile(R"(dims a b
par  0 i64
par  1 bool
out  0 i64 [a, b] dense = add(mul(index(a), extent(b)), add(index(b), par0))
out  1 bool [a, b] dense = xor(par1, lt(index(a), index(b)))
)");
  coordinates.Check({5, 37}, 1);
}

constexpr char kOneForAll[] = R"(dims a b
in   0 f64 [] dense
in   1 f32 [a, b] dense
in   2 f32 [b] dense
s0 : f32 [] = cast<f32>(div(f64:1, sqrt(sub(f64:1, pow(in0[], in0[])))))
s1 : f32 [] = mul(sqrt(s0[]), cast<f32>(in0[]))
out  0 f32 [a, b] dense = mul(sub(in1[a, b], in2[b]), s0[])
out  1 f32 [a, b] dense = add(in1[a, b], s1[])
)";

// What a launch has one of, like the bias corrections of Adam, is computed before the loops.
TEST_P(ElementsTest, WhatALaunchHasOneOf) {
  CompiledKernel kernel = Compile(kOneForAll);
  for (const int32_t n : {1, 17, 64, 200}) kernel.Check({5, n}, static_cast<uint32_t>(n));
  CompiledKernel row = Compile(R"(dims a
in   0 i64 [] dense
in   1 f32 [a] dense
s0 : f32 [] = cast<f32>(exp(cast<f64>(in0[])))
out  0 f32 [a] dense = select(lt(in1[a], s0[]), mul(in1[a], s0[]), 0)
)");
  for (const int32_t n : {1, 17, 40000}) row.Check({n}, static_cast<uint32_t>(n));
}

TEST(Elements, WhatALaunchHasOneOfIsComputedOnce) {
  const std::string statements = Statements(kOneForAll, "pointwise");
  for (const std::string stage : {"s0", "s1"})
    EXPECT_NE(statements.find("produce " + stage), std::string::npos) << statements;
}

INSTANTIATE_TEST_SUITE_P(Levels, ElementsTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) {
                           return info.param == IsaLevel::kV3 ? "V3" : "V4";
                         });

}  // namespace
}  // namespace kiln
