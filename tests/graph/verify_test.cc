// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kiln/graph/builder.h"
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

TEST(VerifyTest, RefusesANodeWithoutAnOp) {
  Graph g = Sum();
  g.mutable_node(NodeId{0}).op = nullptr;
  EXPECT_THAT(Verify(g), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no op")));
}

TEST(VerifyTest, RefusesAnOutputThatIsNoValue) {
  Graph g = Sum();
  g.AddOutput(ValueId{99}, "w");
  EXPECT_THAT(Verify(g), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("output \"w\"")));
}

}  // namespace
}  // namespace kiln
