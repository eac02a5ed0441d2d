// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using testing::HasSubstr;

const Dim n = Dim::Symbol("n");
const Dim m = Dim::Symbol("m");

Graph Sum() {
  GraphBuilder b("g");
  b.Output(b.Op("add", {b.Input("x", DType::kF32, {n}), b.Input("y", DType::kF32, {m})}), "z");
  return *std::move(b).Finish();
}

TEST(VerifyTest, AcceptsWhatTheBuilderMakes) { KILN_EXPECT_OK(Verify(Sum())); }

TEST(VerifyTest, AcceptsShapesThatGuardsMakeEqual) {
  Graph g = Sum();
  g.mutable_value(g.outputs()[0].value).shape = {m};
  KILN_EXPECT_OK(Verify(g));
}

TEST(VerifyTest, RefusesAnotherShape) {
  Graph g = Sum();
  g.mutable_value(g.outputs()[0].value).shape = {n + 1};
  EXPECT_THAT(Verify(g), StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("by the op's rule it is f32 [n]")));
}

TEST(VerifyTest, RefusesAnotherType) {
  Graph g = Sum();
  g.mutable_value(g.outputs()[0].value).type = DType::kF16;
  EXPECT_THAT(Verify(g), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is f16")));
}

TEST(VerifyTest, RefusesTwoValuesOfOneName) {
  Graph g = Sum();
  g.mutable_value(g.inputs()[0]).name = "y";
  EXPECT_THAT(Verify(g), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two values")));
}

TEST(VerifyTest, RefusesAConstantOfAnotherShape) {
  Graph g = Sum();
  const ValueId c = g.AddConstant("c", F32({2}, {1, 2}));
  g.mutable_value(c).shape = {3};
  EXPECT_THAT(Verify(g),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its constant is f32 [2]")));
}

TEST(VerifyTest, RefusesAnOutputThatIsNoValue) {
  Graph g = Sum();
  g.AddOutput(ValueId{99}, "w");
  EXPECT_THAT(Verify(g), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("output \"w\"")));
}

// Bodies within bodies, each of which names the next one twice.
std::string Nest(int depth) {
  std::string text = "graph nest\ninput c : bool []\ninput x : f32 [2]\n";
  std::string ends;
  for (int d = 1; d <= depth; ++d) {
    const std::string n = std::to_string(d);
    const std::string call =
        "(c, c, x) {then_branch = b" + n + ", else_branch = b" + n + ", extents = [2]}\noutput y\n";
    text += "body b" + n + "\ninput c : bool []\ninput x : f32 [2]\n";
    ends = "end\ny = if" + call + ends;
  }
  return text + "y = relu(x)\noutput y\n" + ends;
}

TEST(VerifyTest, BodiesThatAreSharedCountAsOftenAsTheyAreNamed) {
  KILN_EXPECT_OK(ParseGraph(Nest(10)).status());  // 2047 graphs
  EXPECT_THAT(ParseGraph(Nest(16)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more than 4096")));
}

// 2^30 verifications would never end.
TEST(VerifyTest, VerifiesASharedBodyOnce) {
  EXPECT_THAT(ParseGraph(Nest(30)), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace kiln
