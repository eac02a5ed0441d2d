// SPDX-License-Identifier: Apache-2.0
// Passes about products of values that are no constants.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fusion/pass.h"
#include "fusion/pipeline.h"
#include "gmock/gmock.h"
#include "tests/fusion/nets.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> OpNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.op->name);
  return names;
}

// Whether the pass changes the graph; the second time it must find nothing to do.
bool RunTwice(const char* name, Graph& graph) {
  const absl::StatusOr<bool> first = RunPass(*FindPass(name), graph, {}),
                             second = RunPass(*FindPass(name), graph, {});
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(second.ok() && !*second) << name << " is not idempotent: " << second.status();
  return first.ok() && *first;
}

// The gradient of a weight by `steps` steps of `rows` rows each.
Graph SumOfProducts(int steps, int64_t rows) {
  GraphBuilder b("net");
  ValueId sum = b.Input("before", DType::kF32, {48, 64});
  for (int i = 0; i < steps; ++i) {
    const ValueId x = b.Input(absl::StrCat("x", i), DType::kF32, {rows, 48}),
                  y = b.Input(absl::StrCat("y", i), DType::kF32, {rows, 64});
    sum = b.Op("add", {sum, b.Op("matmul", {x, y}, {{"trans_a", int64_t{1}}})});
  }
  b.Output(sum, "z");
  return FinishOrDie(b);
}

TEST(SumsOfProducts, AreOneProductOfAllTerms) {
  Graph graph = SumOfProducts(5, 4);
  EXPECT_TRUE(RunTwice("sums_of_products", graph));
  EXPECT_THAT(OpNames(graph), ElementsAre("concat", "concat", "matmul", "add"));
  EXPECT_EQ(graph.value(graph.nodes()[0].outputs[0]).shape[0], Dim(20));
}

TEST(SumsOfProducts, ManyAreSeveralThatLiveNoLongerThanTheyPay) {
  Graph graph = SumOfProducts(70, 4);
  EXPECT_TRUE(RunTwice("sums_of_products", graph));
  const std::vector<std::string> ops = OpNames(graph);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "matmul"), 3);
}

TEST(SumsOfProducts, OfWhichOneIsAddedToAnother) {
  Graph graph = SumOfProducts(5, 4);
  GraphBuilder b(&graph);
  const ValueId sum = graph.outputs()[0].value;  // an output, so the end of its terms
  const ValueId more = b.Op("add", {sum, b.Op("exp", {sum})});
  KILN_ASSERT_OK(b.status());
  graph.AddOutput(more, "more");
  EXPECT_TRUE(RunTwice("sums_of_products", graph));
  EXPECT_THAT(OpNames(graph), ElementsAre("concat", "concat", "matmul", "add", "exp", "add"));
}

TEST(SumsOfProducts, LeavePartsOfAValueApart) {
  GraphBuilder b("net");
  const ValueId x = b.Input("x", DType::kF32, {20, 48});
  ValueId sum = b.Input("before", DType::kF32, {48, 64});
  for (int64_t i = 0; i < 5; ++i) {
    const ValueId part =
        b.Op("slice", {x}, {{"starts", DimsValue({4 * i})}, {"ends", DimsValue({4 * i + 4})}});
    const ValueId y = b.Input(absl::StrCat("y", i), DType::kF32, {4, 64});
    sum = b.Op("add", {sum, b.Op("matmul", {part, y}, {{"trans_a", int64_t{1}}})});
  }
  b.Output(sum, "z");
  Graph graph = FinishOrDie(b);
  EXPECT_FALSE(RunTwice("sums_of_products", graph));
}

TEST(SumsOfProducts, LeaveWhatDoesNotPay) {
  Graph two = SumOfProducts(2, 4), many_terms = SumOfProducts(5, 100);
  for (Graph* const graph : {&two, &many_terms})
    EXPECT_FALSE(RunTwice("sums_of_products", *graph)) << Print(*graph);
}

// A recurrence of `steps` steps, whose matrix is an input.
Graph Recurrence(int steps, int64_t rows, bool transposed, int64_t width = 64,
                 bool constant = false) {
  GraphBuilder b("net");
  ValueId state = b.Input("h", DType::kF32, {rows, width});
  const ValueId matrix =
      constant ? Weights(b, {width, width}, 1) : b.Input("w", DType::kF32, {width, width});
  for (int i = 0; i < steps; ++i) {
    state = b.Op("tanh", {b.Op("matmul", {state, matrix}, {{"trans_b", int64_t{transposed}}})});
  }
  b.Output(state, "y");
  return FinishOrDie(b);
}

TEST(SharedPanels, PacksAMatrixOnceForAllProducts) {
  for (const bool transposed : {false, true}) {
    Graph graph = Recurrence(4, 8, transposed);
    EXPECT_TRUE(RunTwice("shared_panels", graph));
    std::set<ValueId> panels;
    for (const Node& node : graph.nodes()) {
      if (node.op->name == absl::string_view("matmul")) panels.insert(node.inputs[1]);
    }
    ASSERT_EQ(panels.size(), 1U) << Print(graph);
    EXPECT_EQ(graph.value(*panels.begin()).shape, (Shape{2, 64, 32}));
    EXPECT_EQ(graph.value(graph.outputs()[0].value).shape, (Shape{8, 64}));
  }
}

TEST(SharedPanels, LeavesWhatDoesNotPay) {
  Graph two = Recurrence(2, 8, false), many_rows = Recurrence(4, 65, false),
        vectors = Recurrence(4, 1, false), narrow = Recurrence(4, 8, false, 32),
        few_terms = Recurrence(4, 17, false), odd = Recurrence(4, 8, false, 72),
        constant = Recurrence(4, 8, false, 64, true);
  for (Graph* const graph : {&two, &many_rows, &vectors, &narrow, &few_terms, &odd, &constant})
    EXPECT_FALSE(RunTwice("shared_panels", *graph)) << Print(*graph);
}

}  // namespace
}  // namespace kiln
