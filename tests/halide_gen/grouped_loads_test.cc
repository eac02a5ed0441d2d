// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/grouped_loads.h"

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
using testing::Not;

const Expr kN = Variable::make(Halide::Int(32), "n");
const Expr kFirst = Variable::make(Halide::Int(32), "i");

Expr Lanes(int lanes) { return Ramp::make(0, 1, lanes); }
Expr All(const Expr& value, int lanes) { return Broadcast::make(value, lanes); }

// in0[index] if `mask`, as the pass leaves it.
std::string Loaded(const Expr& index, const Expr& mask) {
  const Halide::Type type = Halide::Float(32, index.type().lanes());
  std::ostringstream text;
  text << Halide::Internal::simplify(
      GroupedLoads().mutate(Load::make(type, "in0", index, {}, {}, mask, {})));
  return text.str();
}
std::string Loaded(const Expr& index) {
  return Loaded(index, Halide::Internal::const_true(index.type().lanes()));
}

TEST(GroupedLoadsTest, NeighboursAreOneLoad) {
  const Expr pairs = Lanes(8) / 2 * All(kN, 8) + Lanes(8) % 2 + All(kFirst, 8);
  EXPECT_THAT(Loaded(pairs), HasSubstr("in0[ramp(i, 1, 2)]"));
  EXPECT_THAT(Loaded(pairs), HasSubstr("in0[ramp((n*3) + i, 1, 2)]"));
}

// A block of 3 x 5, read by columns.
TEST(GroupedLoadsTest, ElementsNearEachOtherAreShuffled) {
  const Expr block = Lanes(15) % 3 * 5 + Lanes(15) / 3 + All(kFirst * 15, 15);
  EXPECT_THAT(Loaded(block), HasSubstr("in0[ramp(i*15, 1, 8) "));
  EXPECT_THAT(Loaded(block), HasSubstr("in0[ramp((i*15) + 7, 1, 8) "));
  EXPECT_THAT(Loaded(block), Not(HasSubstr("16")));  // nothing behind the last
  EXPECT_THAT(Loaded(block), HasSubstr("0, 5, "));
}

TEST(GroupedLoadsTest, ElementsFarFromEachOtherAreLeft) {
  const Expr far = Lanes(8) % 2 * All(kN, 8) + Lanes(8) / 2 * 100;
  const Expr unknown =
      Load::make(Halide::Int(32, 8), "in1", Lanes(8), {}, {}, Halide::Internal::const_true(8), {});
  EXPECT_THAT(Loaded(far), Not(HasSubstr("ramp(n")));
  EXPECT_THAT(Loaded(unknown + Lanes(8) / 2), HasSubstr("in1["));
}

TEST(GroupedLoadsTest, MasksAreLeft) {
  const Expr pairs = Lanes(8) / 2 * All(kN, 8) + Lanes(8) % 2;
  EXPECT_THAT(Loaded(pairs, Lanes(8) < All(kFirst, 8)), Not(HasSubstr("1, 2)]")));
}

}  // namespace
}  // namespace kiln
