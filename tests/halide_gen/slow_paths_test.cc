// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/slow_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SlowPathsTest, MuchIsBehindABranch) {
  EXPECT_THAT(StatementsOf("sin(in0[a])", 32),
              HasSubstr("if_then_else((uint1)vector_reduce_and(usual), value,"
                        " select(usual, value, let "));
}

TEST(SlowPathsTest, LittleIsNot) {
  EXPECT_THAT(StatementsOf("select(lt(in0[a], f32:0x1p+00), in0[a], exp(in0[a]))", 32),
              Not(HasSubstr("vector_reduce")));
}

// Vectors of all usual operands, of none, and of some; what stands before is used by both ways.
TEST(SlowPathsTest, GiveTheBitsOfBothWays) {
  for (const IsaLevel level : RunnableLevels()) {
    CompiledKernel kernel(R"(kernel v1 math 1
dims a b
in   0 f32 [a, b] dense
in   1 f32 [a] dense
out  0 f32 [a, b] dense = add(cos(mul(in0[a, b], exp(in1[a]))), exp(in1[a]))
out  1 f32 [a, b] dense = sin(mul(in0[a, b], cast<f32>(mul(mul(index(b), index(b)), index(b)))))
out  2 f64 [a, b] dense = sin(cast<f64>(in0[a, b]))
)",
                          level);
    for (const int32_t n : {1, 16, 63, 64, 65, 400}) kernel.Check({3, n}, 1);
  }
}

}  // namespace
}  // namespace kiln
