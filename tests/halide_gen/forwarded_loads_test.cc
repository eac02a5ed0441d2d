// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/forwarded_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

// The loops of sums of short rows, as the worker prints them.
std::string Loops(const std::string& schedule) {
  return Statements(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [a] = reduce add over b (in0[a, b])
out  0 f32 [a] dense = s0[a]
)",
                    schedule);
}

TEST(ForwardedLoadsTest, HalvesOfTwoRowsComeFromTheVectorsThatWereStored) {
  const std::string loops = Loops("row_reduction task=8192 folded=16 accumulators=16");
  EXPECT_THAT(loops, HasSubstr("shuffle(s0_top_folded[ramp(0, 1, 16) aligned(16, 0)], "
                               "s0_top_folded[ramp(16, 1, 16) aligned(16, 0)], "
                               "8, 9, 10, 11, 12, 13, 14, 15, 24,"));
  EXPECT_THAT(loops, HasSubstr("s0_top_2[ramp(16, 1, 16) aligned(16, 0)], 1, 2, 16)"));
  EXPECT_THAT(loops, Not(HasSubstr("_folded[ramp(8, 1")));
}

TEST(ForwardedLoadsTest, PartsOfOneVectorStayWhatTheyAre) {
  const std::string loops = Loops("row_reduction task=8192 accumulators=16");
  EXPECT_THAT(loops, HasSubstr("_folded[ramp(0, 1, 16)"));
  EXPECT_THAT(loops, Not(HasSubstr("aligned(16, 0)], s0")));
}

}  // namespace
}  // namespace kiln
