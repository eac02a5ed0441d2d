// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/narrow_stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Shuffle;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;
using testing::HasSubstr;
using testing::Not;

const Expr kFirst = Variable::make(Halide::Int(32), "i");

Expr Loaded(int lanes) {
  return Load::make(Halide::Float(32, lanes), "in0", Ramp::make(kFirst, 1, lanes), {}, {},
                    Halide::Internal::const_true(lanes), {});
}

Stmt Stored(const Expr& value) {
  const int lanes = value.type().lanes();
  return Store::make("out0", value, Ramp::make(kFirst, 1, lanes), {},
                     Halide::Internal::const_true(lanes), {});
}

std::string Narrow(const Stmt& stmt, int most = 64, bool all = true) {
  std::ostringstream text;
  text << Halide::Internal::simplify(NarrowStores(most, all).mutate(stmt));
  return text.str();
}

TEST(NarrowStoresTest, PartsArePowersOfTwo) {
  const std::string text = Narrow(Stored(Loaded(97) + Broadcast::make(2.0f, 97)));
  EXPECT_THAT(text,
              HasSubstr("out0[ramp(i, 1, 64)] = (float32x64)in0[ramp(i, 1, 64)] + x64(2.000000f)"));
  EXPECT_THAT(text,
              HasSubstr("out0[ramp(i + 64, 1, 32)] = (float32x32)in0[ramp(i + 64, 1, 32)] + x32("));
  EXPECT_THAT(text, HasSubstr("out0[i + 96] = (float32)in0[i + 96] + 2.000000f"));
}

TEST(NarrowStoresTest, OfAShuffleAPartTakesWhatItNeeds) {
  const Expr a = Variable::make(Halide::Float(32, 64), "a");
  const Expr b = Variable::make(Halide::Float(32, 8), "b");
  const std::string text = Narrow(Stored(Shuffle::make_concat({a, b})));
  EXPECT_THAT(text, HasSubstr("out0[ramp(i, 1, 64)] = (float32x64)a\n"));
  EXPECT_THAT(text, HasSubstr("out0[ramp(i + 64, 1, 8)] = (float32x8)b\n"));
}

TEST(NarrowStoresTest, NamesAreOfParts) {
  const Expr named = Variable::make(Halide::Float(32, 72), "t");
  const std::string text = Narrow(LetStmt::make("t", Loaded(72), Stored(named * named)));
  EXPECT_THAT(text, HasSubstr("= (float32x8)in0[ramp(i + 64, 1, 8)]"));
  EXPECT_THAT(text, Not(HasSubstr("slice")));
  EXPECT_THAT(text, Not(HasSubstr("72")));
}

TEST(NarrowStoresTest, VectorsOfRegistersAreLeft) {
  EXPECT_THAT(Narrow(Stored(Loaded(64))), HasSubstr("out0[ramp(i, 1, 64)] = (float32x64)in0["));
}

TEST(NarrowStoresTest, OnlyConditionsOfLanesAreTakenApart) {
  const Expr value = Loaded(32), zero = Broadcast::make(0.0f, 32);
  EXPECT_THAT(Narrow(Stored(value + value), 8, /*all=*/false), HasSubstr("out0[ramp(i, 1, 32)]"));
  const std::string text =
      Narrow(Stored(Halide::select(value < zero, zero, value)), 8, /*all=*/false);
  EXPECT_THAT(text, HasSubstr("out0[ramp(i, 1, 8)]"));
  EXPECT_THAT(text, HasSubstr("out0[ramp(i + 24, 1, 8)]"));
}

// A named vector stands once where the store that takes it stays whole: its parts would be in the
// way of passes that come later.
TEST(NarrowStoresTest, NoPartsOfVectorsWhoseStoreStaysWhole) {
  const Expr named = Variable::make(Halide::Float(32, 32), "t");
  const Expr chosen = Halide::select(Loaded(32) < Broadcast::make(Halide::Expr(1.0f), 32),
                                     Loaded(32), Broadcast::make(Halide::Expr(2.0f), 32));
  const Stmt whole = LetStmt::make("t", chosen, Stored(named + named));
  std::ostringstream text;
  text << NarrowStores(8, /*all=*/false).mutate(whole);
  EXPECT_THAT(text.str(), Not(HasSubstr("part")));
}

}  // namespace
}  // namespace kiln
