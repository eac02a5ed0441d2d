// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/strided_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Variable;
using testing::HasSubstr;

std::string Text(const Expr& expr) {
  std::ostringstream text;
  text << expr;
  return text.str();
}

// in0[ramp(3, apart, 16)] if `mask`, as the pass leaves it.
std::string Loaded(const Expr& apart, const Expr& mask) {
  const Halide::Type type = Halide::Float(32, 16);
  const Expr load = Load::make(type, "in0", Ramp::make(3, apart, 16), {}, {}, mask, {});
  return Text(StridedLoads().mutate(load));
}

const Expr kN = Variable::make(Halide::Int(32), "n");
const Expr kFirst = Variable::make(Halide::Int(32), "y");

TEST(StridedLoadsTest, NoLaneBeyondTheLastThatIsAskedForIsLoaded) {
  const Expr mask = Ramp::make(kFirst, 1, 16) < Broadcast::make(kN, 16);
  EXPECT_THAT(Loaded(4, mask), HasSubstr("in0[ramp(3, 1, 64)]"));
  EXPECT_THAT(Loaded(4, mask), HasSubstr("ramp(0, 1, 64) < x64((min((n - y) + 0, 16)*4) - 3)"));
  EXPECT_THAT(Loaded(4, mask), HasSubstr("slice_vectors("));
  EXPECT_THAT(Loaded(4, mask), HasSubstr(", 0, 4, 16)"));
}

TEST(StridedLoadsTest, TheLimitMayBeWithin) {
  const Expr mask = Ramp::make(kFirst, 1, 16) <= Broadcast::make(kN, 16);
  EXPECT_THAT(Loaded(3, mask), HasSubstr("ramp(0, 1, 48) < x48((min((n - y) + 1, 16)*3) - 2)"));
}

TEST(StridedLoadsTest, OthersAreLeft) {
  const Expr limit = Broadcast::make(kN, 16);
  const Expr mask = Ramp::make(kFirst, 1, 16) < limit;
  const auto left = [](const Expr& apart, const Expr& by) {
    return Loaded(apart, by).find("slice_vectors") == std::string::npos;
  };
  EXPECT_TRUE(left(1, mask));
  EXPECT_TRUE(left(9, mask));
  EXPECT_TRUE(left(kN, mask));
  EXPECT_TRUE(left(4, Ramp::make(kFirst, 2, 16) < limit));
  EXPECT_TRUE(left(4, Halide::Internal::const_true(16)));
}

}  // namespace
}  // namespace kiln
