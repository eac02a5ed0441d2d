// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"
#include "kiln/graph.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

const Dim n = Dim::Symbol("n");

TEST(GraphTest, NamesAreUnique) {
  Graph g;
  const ValueId x = g.AddInput("x", DType::kF32, {n});
  const ValueId other = g.AddInput("x", DType::kF32, {n});
  const ValueId numbered = g.AddConstant("x_1", F32({}, {1}));
  EXPECT_EQ(g.value(x).name, "x");
  EXPECT_EQ(g.value(other).name, "x_1");
  EXPECT_EQ(g.value(numbered).name, "x_1_1");
  KILN_EXPECT_OK(Verify(g));
}

TEST(GraphTest, AFailedNodeLeavesTheGraphAsItWas) {
  Graph g;
  const ValueId x = g.AddInput("x", DType::kF32, {n, 3, 4});
  const ValueId y = g.AddInput("y", DType::kF32, {Dim::Symbol("m"), 3, 5});
  const std::string before = Print(g);
  EXPECT_THAT(g.AddNode(*FindOp("add"), {x, y}, {}, "sum", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("node \"sum\" (add): shapes [n, 3, 4] and [m, 3, 5]")));
  EXPECT_EQ(Print(g), before);
}

TEST(GraphTest, RefusesBadNodes) {
  Graph g;
  const ValueId x = g.AddInput("x", DType::kF32, {2});
  const ValueId i = g.AddInput("i", DType::kI32, {2});
  const auto add = [&](const char* op, std::vector<ValueId> in, Attrs attrs = {}) {
    return g.AddNode(*FindOp(op), in, attrs, "", {}).status();
  };
  EXPECT_THAT(add("add", {x}), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("has 1 inputs; the op takes 2")));
  EXPECT_THAT(add("add", {x, ValueId{}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("absent")));
  EXPECT_THAT(add("add", {x, ValueId{77}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("77")));
  EXPECT_THAT(add("add", {x, i}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("input 1 is i32; cast")));
  EXPECT_THAT(add("exp", {i}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes a float type")));
  EXPECT_THAT(add("cast", {x}), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("attribute \"to\" is missing")));
  EXPECT_THAT(add("softmax", {x}, {{"axes", int64_t{0}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not know")));
  EXPECT_THAT(add("softmax", {x}, {{"axis", 0.5}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not an integer")));
  EXPECT_THAT(add("softmax", {x}, {{"axis", int64_t{1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("axis 1")));
}

TEST(GraphTest, RemovesWhatNoOutputNeeds) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n});
  b.Op("exp", {b.Op("mul", {x, b.Scalar(DType::kF32, 3)})});
  b.Output(b.Op("add", {x, b.Scalar(DType::kF32, 2)}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph g, std::move(b).Finish());
  EXPECT_TRUE(g.RemoveDead());
  EXPECT_FALSE(g.RemoveDead());
  EXPECT_EQ(Print(g),
            "graph g\ninput x : f32 [n]\nconst const_1 : f32 [] = 2.0\nadd : f32 [n] = add(x, "
            "const_1)\noutput y = add\n");
  KILN_EXPECT_OK(Verify(g));
}

TEST(GraphTest, ReplacesUsesAndSorts) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n});
  const ValueId e = b.Op("exp", {x});
  const ValueId y = b.Op("neg", {e});
  b.Output(y, "y");
  b.Output(e, "e");
  KILN_ASSERT_OK_AND_ASSIGN(Graph g, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> late,
                            g.AddNode(*FindOp("abs"), {x}, {}, "", {}));
  g.ReplaceUses(e, late[0]);
  EXPECT_THAT(Verify(g),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("before it is computed")));
  KILN_ASSERT_OK(g.Sort());
  KILN_EXPECT_OK(Verify(g));
  EXPECT_EQ(g.outputs()[1].value, late[0]);
  g.ReplaceUses(x, y);  // a cycle
  EXPECT_THAT(g.Sort(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cycle")));
}

// Nodes that were added last stand right before those that read them; the others stay in order.
TEST(GraphTest, SortsByFirstUse) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n});
  const ValueId e = b.Op("exp", {x}), y = b.Op("neg", {e});
  b.Output(b.Op("abs", {e}), "z");
  b.Output(y, "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph g, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> again,
                            g.AddNode(*FindOp("exp"), {x}, {}, "", {}));
  g.ReplaceInput(g.value(y).producer, 0, again[0]);
  KILN_ASSERT_OK(g.SortByFirstUse());
  KILN_EXPECT_OK(Verify(g));
  std::vector<std::string> ops;
  for (const Node& node : g.nodes()) ops.emplace_back(node.op->name);
  EXPECT_THAT(ops, ElementsAre("exp", "exp", "neg", "abs"));
  EXPECT_EQ(g.node(NodeId{2}).inputs[0], again[0]);
  g.ReplaceUses(x, y);  // a cycle
  EXPECT_THAT(g.SortByFirstUse(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cycle")));
}

// Whatever is done to a graph, UsersOf and IsOutput say what a walk over all nodes says.
TEST(GraphTest, KnowsWhoReadsAValue) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Graph g;
    for (int i = 0; i < 3; ++i) g.AddInput("x", DType::kF32, {4});
    const auto draw = [&] { return ValueId{static_cast<int32_t>(random() % g.values().size())}; };
    for (int step = 0; step < 40; ++step) {
      switch (random() % 9) {
        case 8:
          if (!g.nodes().empty())
            g.ReplaceInput(NodeId{static_cast<int32_t>(random() % g.nodes().size())}, random() % 2,
                           draw());
          break;
        case 0:
          g.ReplaceUses(draw(), draw());
          break;
        case 1:
          g.AddOutput(draw(), "y");
          break;
        case 2:
          if (random() % 2 == 0 ? g.Sort().ok() : g.SortByFirstUse().ok()) g.RemoveDead();
          break;
        case 3:
          g.SetOutputs({{"a", draw()}, {"b", draw()}});
          break;
        default:
          KILN_ASSERT_OK(g.AddNode(*FindOp("add"), {draw(), draw()}, {}, "", {}));
      }
      const std::vector<std::vector<NodeId>> users = g.Users();
      for (size_t i = 0; i < g.values().size(); ++i) {
        const ValueId value{static_cast<int32_t>(i)};
        EXPECT_THAT(g.UsersOf(value), UnorderedElementsAreArray(users[i]));
        EXPECT_EQ(g.IsOutput(value), std::any_of(g.outputs().begin(), g.outputs().end(),
                                                 [&](const auto& o) { return o.value == value; }));
      }
    }
  }
}

TEST(GraphTest, ListsUsersOnce) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n});
  const ValueId square = b.Op("mul", {x, x});
  b.Output(b.Op("add", {square, x}), "y");
  const auto users = b.graph().Users();
  EXPECT_EQ(users[static_cast<size_t>(x.v)], (std::vector<NodeId>{{0}, {1}}));
  EXPECT_EQ(users[static_cast<size_t>(square.v)], (std::vector<NodeId>{{1}}));
}

TEST(GraphTest, GuardsAreKeptOnceAndOnlyIfNeeded) {
  Graph g;
  g.AddGuard(Guard::Equal(n, 4));
  g.AddGuard(Guard::Equal(n, 4));
  g.AddGuard(Guard::AtLeast(n, 0));
  EXPECT_EQ(g.guards().size(), 1u);
}

TEST(BuilderTest, KeepsTheFirstError) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n});
  b.Output(b.Op("exp", {b.Op("no_such_op", {x})}), "y");
  EXPECT_THAT(std::move(b).Finish(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"no_such_op\"")));
}

TEST(BuilderTest, SplitsIntoAsManyAsSizesAreGiven) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, 6});
  const std::vector<ValueId> parts =
      b.Ops("split", {x}, {{"axis", int64_t{1}}, {"split", std::vector<int64_t>{1, 2, 3}}});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(b.value(parts[2]).shape, (Shape{n, 3}));
}

}  // namespace
}  // namespace kiln
