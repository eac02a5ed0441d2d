// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/remainder_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "halide_gen/cpu/vector_part.h"
#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Shuffle;
using Halide::Internal::Variable;
using testing::HasSubstr;
using testing::Not;

TEST(RemainderLoopsTest, ALoopMakesVectors) {
  const std::string text = StatementsOf("sigmoid(in0[a])", 64);
  EXPECT_THAT(text, HasSubstr("for (tail, 0, "));
  EXPECT_THAT(text, HasSubstr("float32x64"));
  EXPECT_THAT(text, HasSubstr("(tail*16)"));
  EXPECT_THAT(text, Not(HasSubstr("1, 64) <=")));
}

TEST(RemainderLoopsTest, WhatComputesLittleIsLeft) {
  EXPECT_THAT(StatementsOf("mul(in0[a], in0[a])", 64), Not(HasSubstr("for (tail")));
}

TEST(RemainderLoopsTest, GiveTheBitsOfUnmaskedLoops) {
  for (const IsaLevel level : RunnableLevels()) {
    CompiledKernel kernel(R"(kernel v1 math 1
dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
in   2 u8 [a] dense
out  0 f32 [a, b] dense = mul(erf(add(in0[a, b], in1[b])), cast<f32>(in2[a]))
out  1 u8 [a, b] dense = cast<u8>(index(b))
)",
                          level);
    for (const int32_t n : {1, 15, 16, 17, 48, 63, 64, 65, 130, 600}) kernel.Check({3, n}, 1);
  }
}

// A tail that stores twice, the second time up to `limit`; how many loops become of it.
size_t LoopsOf(const std::string& limit) {
  using Halide::Internal::Block;
  using Halide::Internal::Call;
  using Halide::Internal::IfThenElse;
  using Halide::Internal::Store;
  const Expr x = Variable::make(Halide::Int(32), "x");
  const Expr at = Ramp::make(x * 64, 1, 64);
  Expr value =
      Load::make(Halide::Float(32, 64), "in0", at, {}, {}, Halide::Internal::const_true(64), {});
  for (int i = 0; i < 20; ++i)
    value = Call::make(value.type(), "exp_f32", {value}, Call::PureExtern);
  const auto store = [&](const std::string& to, const std::string& bound) {
    const Expr mask = bound.empty()
                          ? Halide::Internal::const_true(64)
                          : at < Broadcast::make(Variable::make(Halide::Int(32), bound), 64);
    return Store::make(to, value, at, {}, mask, {});
  };
  const auto tail = IfThenElse::make(x < 3, Halide::Internal::Evaluate::make(0),
                                     Block::make(store("out0", "n"), store("out1", limit)));
  std::ostringstream text;
  text << RemainderLoops(16).mutate(tail);
  return text.str().find("for (tail") == std::string::npos ? 0 : 1;
}

TEST(RemainderLoopsTest, AllStoresHaveOneMask) {
  EXPECT_EQ(LoopsOf("n"), 1u);
  EXPECT_EQ(LoopsOf("m"), 0u);  // steps up to n would leave elements of out1 out
  EXPECT_EQ(LoopsOf(""), 0u);   // as they would of a store to whole vectors
}

class VectorPartTest : public testing::Test {
 protected:
  const Expr first_ = Variable::make(Halide::Int(32), "i");
  const Expr vector_ = Load::make(Halide::Float(32, 64), "in0", Ramp::make(first_, 3, 64), {}, {},
                                  Ramp::make(0, 1, 64) < Broadcast::make(first_, 64), {});

  static std::string Text(const Expr& expr) {
    std::ostringstream text;
    text << Halide::Internal::simplify(expr);
    return text.str();
  }
};

TEST_F(VectorPartTest, LanesFromAnywhere) {
  VectorPart part(Variable::make(Halide::Int(32), "t") * 16, 16);
  const std::string text = Text(part.mutate(vector_ * Broadcast::make(2.0f, 64)));
  EXPECT_TRUE(part.ok());
  EXPECT_THAT(text, HasSubstr("in0[ramp((t*48) + i, 3, 16)]"));
  EXPECT_THAT(text, HasSubstr("ramp(t*16, 1, 16) < x16(i)"));
  EXPECT_THAT(text, HasSubstr("x16(2.000000f)"));
}

TEST_F(VectorPartTest, ShufflesFromConstantsOnly) {
  const Expr shuffle = Shuffle::make_interleave(
      {Variable::make(Halide::Float(32, 2), "a"), Variable::make(Halide::Float(32, 2), "b")});
  VectorPart second(2, 2), anywhere(first_, 2);
  const Expr pair = second.mutate(shuffle);
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(pair.as<Shuffle>()->indices, std::vector<int>({1, 3}));
  anywhere.mutate(shuffle);
  EXPECT_FALSE(anywhere.ok());
}

}  // namespace
}  // namespace kiln
