// SPDX-License-Identifier: Apache-2.0
// Memory of a model's constants, which a caller has handed in and still has, is no output.
#include <string>

#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MATCHER_P2(Names, output, constant, "") {
  return arg.code() == absl::StatusCode::kInvalidArgument &&
         testing::Value(std::string(arg.message()), AllOf(HasSubstr(output), HasSubstr(constant)));
}

// y = x + weight
absl::StatusOr<Model> Adding(const Tensor& weight, int level) {
  GraphBuilder b("adding");
  const ValueId x = b.Input("x", DType::kF32, {4});
  b.Output(b.Op("add", {x, b.Constant(weight, "weight")}), "y");
  absl::StatusOr<Graph> graph = std::move(b).Finish();
  if (!graph.ok()) return graph.status();
  CompileOptions options = OnVm();
  options.graph_opt_level = level;
  return Compile(*std::move(graph), options);
}

TEST(BoundConstants, AnOutputOverAConstantNamesBoth) {
  for (const int level : {0, 3}) {
    const Tensor weight = F32({4}, {1, 2, 3, 4});
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Adding(weight, level));
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.Bind("x", F32({4}, {1, 1, 1, 1})));
    EXPECT_THAT(context.BindOutput("y", weight), Names("\"y\"", "\"weight\""));
    KILN_ASSERT_OK(context.Run());  // as if it had not been asked for
    EXPECT_THAT(Values(weight), ElementsAre(1, 2, 3, 4));
  }
}

TEST(BoundConstants, APartOfAConstantIsEnough) {
  const Tensor memory = F32({12}, {0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0});
  const auto part = [&](int64_t first) {
    return Tensor::View(static_cast<float*>(memory.data()) + first, DType::kF32, {4});
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Adding(part(4), 3));
  Context context = model.NewContext();
  EXPECT_THAT(context.BindOutput("y", part(1)), Names("\"y\"", "\"weight\""));
  EXPECT_THAT(context.BindOutput("y", part(7)), Names("\"y\"", "\"weight\""));
  KILN_EXPECT_OK(context.BindOutput("y", part(0)));
  KILN_EXPECT_OK(context.BindOutput("y", part(8)));
}

TEST(BoundConstants, AnInputMayBeAConstantsMemory) {
  const Tensor weight = F32({4}, {1, 2, 3, 4});
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Adding(weight, 3));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model.Run({{"x", weight}}));
  EXPECT_THAT(Values(got[0]), ElementsAre(2, 4, 6, 8));
}

// A branch's constant counts as the graph's own do.
TEST(BoundConstants, ConstantsOfBodiesCount) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(R"(graph g
input c : bool []
input x : f32 [2]
body a
input x : f32 [2]
const inner : f32 [2] = [5, 6]
y : f32 [2] = add(x, inner)
output y
end
body b
input x : f32 [2]
output x
end
r : f32 [2] = if(c, x) {else_branch = b, extents = [2], then_branch = a}
output r
)"));
  Tensor inner;
  for (const Node& node : graph.nodes()) {
    const Graph& body = *std::get<Body>(node.attrs.at("then_branch"));
    for (const Value& value : body.values()) {
      if (value.constant) inner = *value.constant;
    }
  }
  ASSERT_NE(inner.data(), nullptr);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, OnVm()));
  Context context = model.NewContext();
  EXPECT_THAT(context.BindOutput("r", inner), Names("\"r\"", "\"inner\""));
}

}  // namespace
}  // namespace kiln
