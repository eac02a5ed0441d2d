// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/unmasked_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

// What stands in `text` from `begin` to `end`.
std::string Between(const std::string& begin, const std::string& end, const std::string& text) {
  const size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at, text.find(end, at) - at);
}

// As the worker prints them.
std::string Loops(const std::string& schedule) {
  return Statements(R"(dims a b
in   0 f32 [a, b] dense
s0 : f32 [a]    = reduce max over b (in0[a, b])
s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))
s2 : f32 [a]    = reduce add over b (s1[a, b])
out  0 f32 [a, b] dense = div(s1[a, b], s2[a])
)",
                    schedule);
}

constexpr char kSchedule[] = "row_reduction step=32 task=8192 stored=1";

TEST(UnmaskedLoopsTest, LoadWithoutAMask) {
  const std::string map = Between("for (s1$0", "produce s2", Loops(kSchedule));
  EXPECT_THAT(map, HasSubstr("if_then_else(((s1$0.s0.px.px*32) + 31) < extent1, in0[ramp("));
  EXPECT_THAT(map, HasSubstr("] if (ramp(s1$0.s0.px.px*32, 1, 32) < x32(extent1))"));
}

TEST(UnmaskedLoopsTest, WhatIsLoadedOnceKeepsItsMask) {
  const std::string maximum =
      Between("produce s0_top_lanes", "produce s0_top_folded", Loops(kSchedule));
  EXPECT_THAT(maximum, HasSubstr("ramp(0, 1, 64) < x64("));
  EXPECT_THAT(maximum, Not(HasSubstr("if_then_else")));
}

}  // namespace
}  // namespace kiln
