// SPDX-License-Identifier: Apache-2.0
#include "graph/reference/interpreter.h"

#include <algorithm>
#include <ctime>
#include <numeric>

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

TEST(InterpreterTest, RunsAGraphWithSymbolsAndAComposite) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph g, ParseGraph("graph g\ninput x : f32 [n, 2]\ny = softmax(x)\noutput y\n"));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(g, std::vector<Tensor>{F32({2, 2}, {0, 0, 1000, 0})}));
  EXPECT_EQ(out[0].dtype(), DType::kF32);
  EXPECT_THAT(Values(out[0]), ElementsAre(0.5, 0.5, 1, 0));
}

TEST(InterpreterTest, ObservesEveryValueInItsType) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g,
                            ParseGraph("graph g\ninput x : f32 [n]\na = cast(x) {to = f16}\nb = "
                                       "add(a, a)\ny = softmax(b)\noutput y"));
  std::vector<std::string> seen;
  KILN_ASSERT_OK(
      Interpret(g, std::vector<Tensor>{F32({1}, {0.1})}, [&](ValueId id, const Tensor& t) {
        seen.push_back(g.value(id).name);
        EXPECT_EQ(t.dtype(), g.value(id).type);
      }));
  EXPECT_THAT(seen, ElementsAre("x", "a", "b", "y"));
}

TEST(InterpreterTest, RoundsOnlyAtCastsAndOutputs) {
  // In f32, (1 + 2^-30) - 1 is 0.
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph g,
      ParseGraph(
          "graph g\ninput x : f32 []\nconst one : f32 [] = 1.0\ns = add(x, one)\ny = sub(s, one)\n"
          "h = cast(s) {to = f16}\nw = cast(h) {to = f32}\nz = sub(w, one)\noutput y\noutput z"));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(g, std::vector<Tensor>{F32({}, {0x1p-30})}));
  EXPECT_THAT(Values(out[0]), ElementsAre(0x1p-30));
  EXPECT_THAT(Values(out[1]), ElementsAre(0));
}

TEST(InterpreterTest, TakesStridedInputs) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g,
                            ParseGraph("graph g\ninput x : f32 [2, 3]\ny = neg(x)\noutput y"));
  const Tensor base = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor transposed = Tensor::View(base.data(), DType::kF32, {2, 3}, {1, 2}, base.owner());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(g, std::vector<Tensor>{transposed}));
  EXPECT_THAT(Values(out[0]), ElementsAre(-1, -3, -5, -2, -4, -6));
}

TEST(InterpreterTest, RefusesInputsThatDoNotFit) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g,
                            ParseGraph("graph g\ninput x : f32 [n, 2]\ninput y : f32 [n]\nguard n "
                                       "% 2 == 0\nz = neg(x)\noutput z"));
  const auto run = [&](std::vector<Tensor> in) { return Interpret(g, in).status(); };
  EXPECT_THAT(run({F32({1, 2}, {1, 2})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes 2 inputs")));
  EXPECT_THAT(run({F32({2, 3}, {}), F32({2}, {})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("extent 1 is 3; 2 is 2")));
  EXPECT_THAT(run({F32({2, 2}, {}), F32({3}, {})}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("input \"y\": extent 0 is 3; n is 2")));
  EXPECT_THAT(run({F32({2}, {}), F32({2}, {})}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                          HasSubstr("the graph takes f32 [n, 2]")));
  EXPECT_THAT(run({I64({2, 2}, {}), F32({2}, {})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is i64")));
  EXPECT_THAT(run({F32({3, 2}, {}), F32({3}, {})}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("n % 2 == 0")));
}

TEST(InterpreterTest, RefusesWhatDoesNotFitInMemory) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph g,
      ParseGraph(
          "graph g\ninput x : f32 [n]\ny = expand(x) {shape = [1000000, 1000000, n]}\noutput y"));
  EXPECT_THAT(Interpret(g, std::vector<Tensor>{F32({2}, {1, 2})}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(InterpreterTest, EmptyTensors) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph g, ParseGraph("graph g\ninput x : f32 [n, 3]\ns = reduce_sum(x) {axes = [0], "
                                "keepdims = 0}\nm = reduce_mean(x) {axes = [0], keepdims = 0}\n"
                                "a = reduce_max(x) {axes = [0], keepdims = 0}\nf = "
                                "softmax(x)\noutput s\noutput m\noutput a\noutput f"));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(g, std::vector<Tensor>{F32({0, 3}, {})}));
  EXPECT_THAT(Values(out[0]), ElementsAre(0, 0, 0));
  EXPECT_TRUE(std::isnan(Values(out[1])[0]));
  EXPECT_THAT(Values(out[2]), ElementsAre(-INFINITY, -INFINITY, -INFINITY));
  EXPECT_EQ(out[3].shape(), (std::vector<int64_t>{0, 3}));
}

// Taps outside of the input are not walked: these windows have 2^62 of them.
TEST(InterpreterTest, WindowsAreAsLargeAsTheirInputsAtMost) {
  const std::string attrs =
      " {kernel = [2147483648, 2147483648], pads = [2147483647, 2147483647, 0, 0]";
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph g, ParseGraph("graph g\ninput x : f32 [1, 1, 1, 2]\nm = max_pool(x)" + attrs +
                                "}\na = average_pool(x)" + attrs + "}\nc = average_pool(x)" +
                                attrs + ", count_include_pad = 1}\noutput m\noutput a\noutput c"));
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(g, std::vector<Tensor>{F32({1, 1, 1, 2}, {1, 3})}));
  EXPECT_THAT(Values(out[0]), ElementsAre(1, 3));
  EXPECT_THAT(Values(out[1]), ElementsAre(1, 2));
  EXPECT_THAT(Values(out[2]), ElementsAre(0x1p-62, 0x1p-60));
}

// Where a part begins, and which part an element is from, is not looked for among all.
TEST(InterpreterTest, PartsMayBeMany) {
  constexpr int64_t kParts = 20000;
  Graph g;
  const ValueId x = g.AddInput("x", DType::kF32, {kParts});
  KILN_ASSERT_OK_AND_ASSIGN(std::vector<ValueId> parts,
                            g.AddNode(*FindOp("split"), {x}, {{"axis", int64_t{0}}}, "split",
                                      std::vector<std::string>(kParts, "part")));
  std::reverse(parts.begin(), parts.end());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> joined,
                            g.AddNode(*FindOp("concat"), parts, {{"axis", int64_t{0}}}, "", {}));
  g.AddOutput(joined[0], "y");
  std::vector<double> numbers(kParts);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::clock_t start = std::clock();
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(g, std::vector<Tensor>{F32({kParts}, numbers)}));
#ifdef __SANITIZE_ADDRESS__
  constexpr std::clock_t kMost = 60;
#else
  constexpr std::clock_t kMost = 5;  // 0.1
#endif
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, kMost);
  std::reverse(numbers.begin(), numbers.end());
  EXPECT_EQ(Values(out[0]), numbers);
}

}  // namespace
}  // namespace kiln
