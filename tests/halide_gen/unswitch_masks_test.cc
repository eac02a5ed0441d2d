// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/unswitch_masks.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

// The part of `text` from the first `begin` on.
std::string From(const std::string& begin, const std::string& text) {
  const size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at);
}

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

TEST(UnswitchMasksTest, WholeTilesOfColumnsLoadWithoutMasks) {
  const std::string text =
      Statements(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [b] = reduce add over a (in0[a, b])
out  0 f32 [b] dense = s0[b]
)",
                 "staged outer_step=32 outer_levels=1 one_vector=1", "x86-64-v3");
  // Two loops over the rows of a block; the first, for whole tiles, has no mask.
  const std::string loops = From(" + 31) < extent1", text);
  ASSERT_FALSE(loops.empty()) << text;
  const size_t other = loops.find("} else {");
  ASSERT_NE(other, std::string::npos) << loops;
  const std::string whole = loops.substr(0, other);
  EXPECT_EQ(Count(whole, "for ("), 1u) << whole;
  EXPECT_EQ(Count(whole, "in0[ramp("), 1u) << whole;
  EXPECT_EQ(Count(whole, " if "), 0u) << whole;
  EXPECT_GE(Count(loops.substr(other), "] if (ramp("), 1u) << loops;
}

}  // namespace
}  // namespace kiln
