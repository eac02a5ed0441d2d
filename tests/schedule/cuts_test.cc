// SPDX-License-Identifier: Apache-2.0
#include "schedule/index_split.h"

#include <gtest/gtest.h>

#include "kernel/text.h"
#include "schedule/size_class.h"

namespace kiln {
namespace {

Kernel Parse(const std::string& body) {
  const auto kernel = ParseKernel(
      "kernel v1 math 1\ndims a b\nsizes n0 n1\nin   0 f32 [a, b] dense\nin   1 f32 [a, n1] dense\n"
      "out  0 f32 [a, b] dense = " +
      body + "\n");
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << body;
  return kernel.ok() ? *kernel : Kernel();
}

std::string Piece(const Kernel& kernel, size_t piece) {
  const std::string text = Print(Between(kernel, Cuts(kernel), piece));
  const size_t at = text.find("dense = ");
  return text.substr(at + 8, text.size() - at - 9);
}

TEST(CutsTest, DecidesConcat) {
  const Kernel kernel = Parse("guard(lt(index(b), extent(n0)), in0[a, b], in1[a, b-|n0|])");
  ASSERT_EQ(Cuts(kernel).size(), 1u);
  EXPECT_EQ(Piece(kernel, 0), "in0[a, b]");
  EXPECT_EQ(Piece(kernel, 1), "in1[a, b-|n0|]");
}

TEST(CutsTest, DecidesBothSidesOfAPad) {
  const Kernel kernel = Parse(
      "guard(and(le(i64:2, index(b)), lt(index(b), add(i64:2, extent(n1)))), in1[a, b-2], 0)");
  ASSERT_EQ(Cuts(kernel).size(), 2u);
  EXPECT_EQ(Piece(kernel, 0), "0");
  EXPECT_EQ(Piece(kernel, 1), "in1[a, b-2]");
  EXPECT_EQ(Piece(kernel, 2), "0");
}

TEST(CutsTest, DecidesThreeEqualParts) {
  const Kernel kernel = Parse(
      "guard(lt(index(b), extent(n1)), in1[a, b], guard(and(le(extent(n1), index(b)), "
      "lt(index(b), mul(extent(n1), i64:2))), in1[a, b-|n1|], 0))");
  ASSERT_EQ(Cuts(kernel).size(), 2u);
  EXPECT_EQ(Piece(kernel, 0), "in1[a, b]");
  EXPECT_EQ(Piece(kernel, 1), "in1[a, b-|n1|]");
  EXPECT_EQ(Piece(kernel, 2), "0");
}

// Factors that are small each have a product beyond 64 bits.
TEST(CutsTest, NumbersThatLoopsCannotHaveAreNoCuts) {
  std::string extent = "extent(n0)";
  for (int i = 0; i < 3; ++i) extent = "mul(" + extent + ", i64:1024)";
  EXPECT_TRUE(Cuts(Parse("guard(lt(index(b), " + extent + "), in0[a, b], 0)")).empty());
  for (int i = 0; i < 7; ++i) extent = "mul(" + extent + ", i64:1024)";
  EXPECT_TRUE(Cuts(Parse("guard(lt(index(b), " + extent + "), in0[a, b], 0)")).empty());
}

TEST(CutsTest, KeepsWhatDependsOnMore) {
  const Kernel kernel =
      Parse("guard(and(lt(index(b), extent(n0)), lt(index(a), i64:5)), in0[a, b], 0)");
  ASSERT_EQ(Cuts(kernel).size(), 1u);
  EXPECT_EQ(Piece(kernel, 0), "guard(lt(index(a), i64:5), in0[a, b], 0)");
  EXPECT_EQ(Piece(kernel, 1), "0");
}

TEST(CutsTest, PiecesAreAsLongAsExtentsSay) {
  const Kernel kernel = Parse(
      "guard(and(le(i64:2, index(b)), lt(index(b), add(i64:2, extent(n1)))), in1[a, b-2], 0)");
  const auto lengths = [&](int64_t b, int64_t n1) {
    return PieceLengths(kernel, Cuts(kernel), std::vector<int64_t>{kUnbounded, b, kUnbounded, n1});
  };
  EXPECT_EQ(lengths(12, 7), (std::vector<int64_t>{2, 7, 3}));
  EXPECT_EQ(lengths(5, 7), (std::vector<int64_t>{2, 3, 0}));
  EXPECT_EQ(lengths(1, 7), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_TRUE(lengths(12, kUnbounded).empty());
  EXPECT_TRUE(lengths(kUnbounded, 7).empty());
}

TEST(CutsTest, NoneWhereTheOrderDependsOnExtents) {
  EXPECT_TRUE(Cuts(Parse("guard(lt(index(b), extent(n0)), in0[a, b], guard(lt(index(b), "
                         "extent(n1)), in1[a, b], 0))"))
                  .empty());
  EXPECT_TRUE(Cuts(Parse("guard(lt(index(b), index(a)), in0[a, b], 0)")).empty());
  EXPECT_TRUE(
      Cuts(Parse("guard(lt(index(b), mul(extent(n0), extent(n1))), in0[a, b], 0)")).empty());
  EXPECT_TRUE(Cuts(Parse("select(lt(index(b), extent(n0)), in0[a, b], 0)")).empty());
}

}  // namespace
}  // namespace kiln
