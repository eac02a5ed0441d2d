// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/mixed_precision.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/gradient/gradients.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLayer[] = R"(graph layer
input x : f32 [n, 2]
input w : f32 [2, 2]
y = matmul(x, w)
z = tanh(y)
loss = reduce_sum(z) {keepdims = 0}
output loss
)";

TEST(MixedPrecision, CastsAroundProducts) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kLayer));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph narrow, WithProductsIn(graph, DType::kBF16));
  EXPECT_EQ(Print(narrow), R"(graph layer
input x : f32 [n, 2]
input w : f32 [2, 2]
cast : bf16 [n, 2] = cast(x) {to = bf16}
cast_1 : bf16 [2, 2] = cast(w) {to = bf16}
matmul : bf16 [n, 2] = matmul(cast, cast_1) "y"
y : f32 [n, 2] = cast(matmul) {to = f32}
z : f32 [n, 2] = tanh(y)
loss : f32 [] = reduce_sum(z) {keepdims = 0}
output loss
)");
  EXPECT_THAT(WithProductsIn(graph, DType::kF64).status().message(),
              HasSubstr("f64 is no float of 16 bits"));
}

// The gradients of parameters are f32, their products rounded to 16 bits.
TEST(MixedPrecision, GradientsAreOfTheMasters) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kLayer));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph narrow, WithProductsIn(graph, DType::kBF16));
  const std::vector<Tensor> inputs = {F32({1, 2}, {0.3, -0.7}), F32({2, 2}, {0.11, 0.5, -0.4, 1})};
  std::vector<std::vector<double>> gradients;
  for (const Graph* g : {&graph, &narrow}) {
    KILN_ASSERT_OK_AND_ASSIGN(const Graph d, Gradients(*g, g->outputs()[0].value, g->inputs()));
    EXPECT_EQ(d.value(d.outputs()[2].value).type, DType::kF32);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> found, Interpret(d, inputs));
    gradients.push_back(Values(found[2]));
  }
  EXPECT_NE(gradients[0], gradients[1]);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(gradients[0][i], gradients[1][i], 0.01);
}

// A cotangent of 1e-9 is 0 in f16, and is not where the loss is scaled by 65536.
TEST(MixedPrecision, ScaledLossKeepsSmallGradients) {
  for (const double scale : {1.0, 65536.0, 1e38}) {
    GraphBuilder b("small");
    const ValueId w = b.Input("w", DType::kF32, {1, 1});
    const ValueId small = b.Scalar(DType::kF32, 1e-9);
    const ValueId narrow = b.Op("cast", {w}, {{"to", DType::kF16}});
    const ValueId wide = b.Op("cast", {b.Op("matmul", {narrow, narrow})}, {{"to", DType::kF32}});
    const ValueId loss = b.Op("reduce_sum", {b.Op("mul", {wide, small})});
    KILN_ASSERT_OK_AND_ASSIGN(const ScaledGradients d,
                              GradientsScaledBy(b, b.Scalar(DType::kF32, scale), loss, {w}));
    b.Output(d.gradients[0], "d");
    b.Output(d.finite, "finite");
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                              Interpret(graph, std::vector{F32({1, 1}, {1})}));
    const double gradient = Values(got[0])[0];
    EXPECT_THAT(Values(got[1]), ElementsAre(scale < 1e30 ? 1 : 0)) << scale;
    if (scale < 1e30) {
      EXPECT_NEAR(gradient, scale == 1 ? 0 : 2e-9, 1e-11) << scale;
    }
  }
}

}  // namespace
}  // namespace kiln
