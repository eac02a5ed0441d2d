// SPDX-License-Identifier: Apache-2.0
// Chains of shape arithmetic, as exporters write them, are known when the model is compiled.
#include "graph/shape_content.h"

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

const Dim n = Dim::Symbol("n");
const Dim m = Dim::Symbol("m");

Attrs Axis(int64_t axis) { return {{"axis", axis}}; }

TEST(ContentTest, ShapeGatherConcatReshapeBecomesAPlainReshape) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, m, 48});
  const ValueId shape = b.Op("shape", {x});
  const auto extent = [&](int64_t i) {
    const ValueId e =
        b.Op("gather", {shape, b.Op("squeeze", {b.Ints({i})}, {{"axes", std::vector<int64_t>{0}}})},
             Axis(0));
    return b.Op("unsqueeze", {e}, {{"axes", std::vector<int64_t>{0}}});
  };
  const ValueId target = b.Op("concat", {extent(0), extent(1), b.Ints({12, 4})}, Axis(0));
  const ValueId y = b.Op("reshape", {x, target});
  b.Output(y, "y");
  KILN_ASSERT_OK_AND_ASSIGN(Graph g, std::move(b).Finish());
  g.RemoveDead();
  ASSERT_EQ(g.nodes().size(), 1u);
  EXPECT_EQ(Print(g, NodeId{0}),
            "reshape : f32 [n, m, 12, 4] = reshape(x) {shape = [n, m, 12, 4]}");
}

TEST(ContentTest, ArithmeticOnExtents) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n * 4, m, 6});
  const ValueId shape = b.Op("cast", {b.Op("cast", {b.Op("shape", {x})}, {{"to", DType::kI32}})},
                             {{"to", DType::kI64}});
  const auto content = [&](const char* op, ValueId a, ValueId c) {
    return *b.value(b.Op(op, {a, c})).shape_content;
  };
  const ValueId twos = b.Ints({2, 2, 2});
  EXPECT_EQ(content("mul", shape, twos), (Shape{n * 8, m * 2, 12}));
  EXPECT_EQ(content("add", shape, b.Ints({1})), (Shape{n * 4 + 1, m + 1, 7}));
  EXPECT_EQ(content("sub", twos, shape), (Shape{2 - n * 4, 2 - m, -4}));
  EXPECT_EQ(content("div", shape, twos), (Shape{n * 2, m.FloorDiv(2), 3}));
  EXPECT_EQ(content("mod", shape, twos), (Shape{0, m.Mod(2), 0}));
  EXPECT_EQ(content("max", shape, b.Ints({0})), (Shape{n * 4, m, 6}));
  EXPECT_EQ(content("min", shape, b.Ints({5})), (Shape{Dim::Min(n * 4, 5), Dim::Min(m, 5), 5}));
  EXPECT_EQ(b.value(b.Op("reduce_prod", {shape}, {{"keepdims", int64_t{0}}})).shape_content,
            (Shape{n * m * 24}));
  EXPECT_EQ(b.value(b.Op("size", {x})).shape_content, (Shape{n * m * 24}));
}

TEST(ContentTest, WhereEqualMinusOneAsInExportedExpands) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, 1});
  const ValueId wish = b.Op("concat", {b.Ints({-1}), b.Ints({8})}, Axis(0));
  const ValueId ones =
      b.Op("constant_of_shape", {b.Ints({2})}, {{"value", *b.value(b.Ints({1})).constant}});
  const ValueId target = b.Op("where", {b.Op("equal", {wish, b.Ints({-1})}), ones, wish});
  const ValueId y = b.Op("expand", {x, target});
  b.Output(y, "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g, std::move(b).Finish());
  EXPECT_EQ(g.value(y).shape, (Shape{n, 8}));
}

TEST(ContentTest, SliceOfAShapeBackwards) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, m, 3});
  const ValueId back = b.Op(
      "slice", {b.Op("shape", {x}), b.Ints({-1}), b.Ints({INT64_MIN}), b.Ints({0}), b.Ints({-1})});
  EXPECT_EQ(b.value(back).shape_content, (Shape{3, m, n}));
  const ValueId last = b.Op("shape", {x}, {{"start", int64_t{-2}}});
  EXPECT_EQ(b.value(last).shape_content, (Shape{m, 3}));
}

TEST(ContentTest, RangeOverAnExtentHasThatManyElements) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, 7});
  const ValueId count = b.Op("gather", {b.Op("shape", {x}), b.Scalar(DType::kI64, 0)}, Axis(0));
  EXPECT_EQ(
      b.value(b.Op("range", {b.Scalar(DType::kI64, 0), count, b.Scalar(DType::kI64, 1)})).shape,
      (Shape{n}));
  const ValueId odd =
      b.Op("range", {b.Scalar(DType::kI64, 1), b.Scalar(DType::kI64, 8), b.Scalar(DType::kI64, 3)});
  EXPECT_EQ(b.value(odd).shape_content, (Shape{1, 4, 7}));
}

TEST(ContentTest, DataIsNotFollowed) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, 8});
  const ValueId s = b.Input("s", DType::kI64, {2});
  b.Output(b.Op("reshape", {x, s}), "y");
  EXPECT_THAT(std::move(b).Finish(), StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace kiln
