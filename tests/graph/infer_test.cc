// SPDX-License-Identifier: Apache-2.0
#include "graph/infer.h"

#include "gmock/gmock.h"
#include "graph/graph.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Dim n = Dim::Symbol("n");
const Dim m = Dim::Symbol("m");

// The shape of op(x) for an x of `shape`, and the guards that it needs; or the error's text.
std::string Result(const Shape& shape, const char* op, Attrs attrs) {
  GraphBuilder b("g");
  const ValueId y = b.Op(op, {b.Input("x", DType::kF32, shape)}, std::move(attrs));
  if (!b.status().ok()) return std::string(b.status().message());
  std::string text = ToString(b.value(y).shape);
  for (const Guard& guard : b.graph().guards()) text += " if " + guard.ToString();
  return text;
}

std::string Both(const Shape& a, const Shape& b, const char* op, Attrs attrs = {}) {
  GraphBuilder g("g");
  const ValueId y =
      g.Op(op, {g.Input("a", DType::kF32, a), g.Input("b", DType::kF32, b)}, std::move(attrs));
  if (!g.status().ok()) return std::string(g.status().message());
  std::string text = ToString(g.value(y).shape);
  for (const Guard& guard : g.graph().guards()) text += " if " + guard.ToString();
  return text;
}

Attrs Dims(const char* name, const char* text) { return {{name, std::string(text)}}; }
std::vector<int64_t> L(std::initializer_list<int64_t> list) { return list; }

TEST(Builder, ASplitHasAsManyPartsAsItsInputHasSizes) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n + 2, 3});
  const ValueId extent = b.Op("slice", {b.Op("shape", {x}), b.Ints({0}), b.Ints({1})});
  const ValueId rest = b.Op("sub", {extent, b.Ints({2})});
  const std::vector<ValueId> parts =
      b.Ops("split", {x, b.Op("concat", {b.Ints({2}), rest}, {{"axis", int64_t{0}}})},
            {{"axis", int64_t{0}}});
  KILN_ASSERT_OK(b.status());
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(b.value(parts[0]).shape, (Shape{2, 3}));
  EXPECT_EQ(b.value(parts[1]).shape, (Shape{n, 3}));
  EXPECT_THAT(b.graph().guards(), IsEmpty());
}

TEST(InferTest, SlicesToAProductOfManySymbolsAssumeOneThing) {
  // 2^20 to the fourth is beyond 64 bits; the bound is negative for smaller extents too.
  EXPECT_EQ(Result({n}, "slice",
                   {{"starts", L({0})},
                    {"ends", std::string("[-n*n*n*n]")},
                    {"axes", L({0})},
                    {"steps", L({1})}}),
            "[0] if -n*n*n*n < 0 if -n*n*n*n + n < 0");
}

TEST(InferTest, FiltersThatAreSymbolsDivideByTheGroup) {
  const Attrs group = {{"group", int64_t{2}}};
  EXPECT_EQ(Both({1, 2, 8}, {m, 1, 3}, "conv", group), "[1, m, 6] if m % 2 == 0");
  EXPECT_EQ(Both({1, m, 8}, {m, 1, 3}, "conv_transpose", group), "[1, 2, 10] if m % 2 == 0");
}

TEST(InferTest, Broadcasting) {
  EXPECT_EQ(Both({n, 3}, {3}, "add"), "[n, 3]");
  EXPECT_EQ(Both({}, {n, 3}, "add"), "[n, 3]");
  EXPECT_EQ(Both({n, 1}, {1, m}, "add"), "[n, m]");
  EXPECT_EQ(Both({n}, {n}, "add"), "[n]");
  EXPECT_EQ(Both({n}, {m}, "add"), "[n] if m == n");
  EXPECT_EQ(Both({n}, {5}, "add"), "[5] if n == 5");
  EXPECT_EQ(Both({n * 2}, {2}, "add"), "[2] if 2*n == 2");
  EXPECT_EQ(Both({0}, {1}, "add"), "[0]");
  EXPECT_THAT(Both({4}, {5}, "add"), HasSubstr("do not broadcast: 4 and 5 differ"));
  // Only [0] and [1] go together, and that is said of numbers alone: no extents fit the symbols.
  EXPECT_EQ(Both({n}, {n + 1}, "add"), "[n] if n + 1 == 1 if n + 1 != 1");
  EXPECT_THAT(Both({n + 2}, {n + 3}, "add"), HasSubstr("do not broadcast: n + 2 and n + 3 differ"));
}

TEST(InferTest, GemmTakesABiasThatBroadcasts) {
  const auto gemm = [](const Shape& bias) {
    GraphBuilder g("g");
    const ValueId y =
        g.Op("gemm", {g.Input("a", DType::kF32, {n, 4}), g.Input("b", DType::kF32, {4, m}),
                      g.Input("c", DType::kF32, bias)});
    if (!g.status().ok()) return std::string(g.status().message());
    std::string text = ToString(g.value(y).shape);
    for (const Guard& guard : g.graph().guards()) text += " if " + guard.ToString();
    return text;
  };
  EXPECT_EQ(gemm({1, m}), "[n, m]");
  EXPECT_EQ(gemm({6}), "[n, 6] if m == 6");
  EXPECT_EQ(gemm({5, 6}), "[5, 6] if n == 5 if m == 6");
  EXPECT_EQ(gemm({Dim::Symbol("k")}), "[n, m] if k == m");
  EXPECT_THAT(gemm({2, n, m}), HasSubstr("does not broadcast to [n, m]"));
  const auto row = [](const Shape& bias) {
    GraphBuilder g("g");
    g.Op("gemm", {g.Input("a", DType::kF32, {1, 4}), g.Input("b", DType::kF32, {4, 6}),
                  g.Input("c", DType::kF32, bias)});
    return std::string(g.status().message());
  };
  EXPECT_THAT(row({3, 6}), HasSubstr("does not broadcast to [1, 6]"));
  EXPECT_EQ(row({n, 6}), "");
}

TEST(InferTest, GemmOfIntegersHasTheirFactors) {
  const auto gemm = [](DType type, double alpha, double beta) {
    GraphBuilder g("g");
    g.Op("gemm", {g.Input("a", type, {2, 3}), g.Input("b", type, {3, 2}), g.Input("c", type, {2})},
         {{"alpha", alpha}, {"beta", beta}});
    return std::string(g.status().message());
  };
  EXPECT_THAT(gemm(DType::kI32, 0.5, 1), HasSubstr("alpha is 0.5, which i32 does not have"));
  EXPECT_THAT(gemm(DType::kU64, 1, -1), HasSubstr("beta is -1, which u64 does not have"));
  EXPECT_THAT(gemm(DType::kI8, 300, 1), HasSubstr("alpha is 300, which i8 does not have"));
  EXPECT_EQ(gemm(DType::kI8, -3, 2), "");
  EXPECT_EQ(gemm(DType::kF16, 0.5, 0.3), "");
}

// gemm and layer_norm have one rule for what broadcasts without widening.
TEST(InferTest, ABiasOfAnExtentThatIsNeverTheProductsFitsWhereItIsOne) {
  GraphBuilder g("g");
  g.Op("gemm", {g.Input("a", DType::kF32, {n + 4, 4}), g.Input("b", DType::kF32, {4, 6}),
                g.Input("c", DType::kF32, {n, 6})});
  EXPECT_EQ(g.status().message(), "");
  GraphBuilder h("h");
  h.Op("layer_norm", {h.Input("x", DType::kF32, {2, n + 4}), h.Input("scale", DType::kF32, {n})});
  EXPECT_EQ(h.status().message(), "");
  GraphBuilder k("k");
  k.Op("layer_norm", {k.Input("x", DType::kF32, {2, n}), k.Input("scale", DType::kF32, {n + 2})});
  EXPECT_THAT(std::string(k.status().message()), HasSubstr("does not broadcast to [2, n]"));
}

// Whether all guards of the graph hold for some n.
bool HoldForSomeN(const Graph& graph) {
  bool some = false;
  for (int64_t size = 0; size < 2000 && !some; ++size) {
    some = true;
    for (const Guard& guard : graph.guards()) some = some && *guard.Holds({{"n", size}});
  }
  return some;
}

// Of two bounds of a node, each is decided with the guard that the other one has adopted: 512 - n
// is not negative, so n - 600 is, and so is 2*n - 1200.
TEST(InferTest, TheGuardsOfOneSliceDoNotContradictEachOther) {
  for (const char* starts : {"[0, n - 600]", "[0, 2*n - 1200]"}) {
    GraphBuilder b("g");
    b.Op("slice", {b.Input("x", DType::kF32, {512, n})},
         {{"starts", std::string(starts)}, {"ends", std::string("[n, n]")}});
    KILN_ASSERT_OK(b.status());
    EXPECT_TRUE(HoldForSomeN(b.graph())) << starts;
  }
}

TEST(InferTest, Reshape) {
  EXPECT_EQ(Result({n, 6}, "reshape", Dims("shape", "[0, 2, -1]")), "[n, 2, 3]");
  EXPECT_EQ(Result({n, m, 6}, "reshape", Dims("shape", "[-1, 6]")), "[m*n, 6]");
  EXPECT_EQ(Result({n, 6}, "reshape", Dims("shape", "[3, -1]")), "[3, 2*n]");
  EXPECT_EQ(Result({n}, "reshape", Dims("shape", "[-1, 4]")), "[n/4, 4] if n % 4 == 0");
  EXPECT_EQ(Result({n, m}, "reshape", Dims("shape", "[n, -1]")), "[n, m]");
  EXPECT_EQ(Result({n, 8}, "reshape", Dims("shape", "[16]")), "[16] if 8*n == 16");
  EXPECT_EQ(Result({0, 3}, "reshape", {{"shape", L({0, -1})}}), "[0, 3]");
  EXPECT_EQ(Result({0, 3}, "reshape", {{"shape", L({3, 0})}, {"allowzero", int64_t{1}}}), "[3, 0]");
  EXPECT_THAT(Result({4}, "reshape", Dims("shape", "[3]")), HasSubstr("differ"));
  EXPECT_THAT(Result({4}, "reshape", Dims("shape", "[-1, -1]")), HasSubstr("twice"));
  EXPECT_THAT(Result({4}, "reshape", Dims("shape", "[-2]")), HasSubstr("-2"));
  EXPECT_THAT(Result({4}, "reshape", Dims("shape", "[3, -1]")), HasSubstr("divide"));
}

TEST(InferTest, Squeezing) {
  EXPECT_EQ(Result({n, 1, 3}, "squeeze", {{"axes", L({-2})}}), "[n, 3]");
  EXPECT_EQ(Result({n, 1, 3}, "squeeze", {}), "[n, 3] if n != 1");
  EXPECT_EQ(Result({n, 3}, "squeeze", {{"axes", L({0})}}), "[3] if n == 1");
  EXPECT_THAT(Result({n, 3}, "squeeze", {{"axes", L({1})}}), HasSubstr("3 and 1 differ"));
  EXPECT_EQ(Result({n, 3}, "unsqueeze", {{"axes", L({0, -1})}}), "[1, n, 3, 1]");
  EXPECT_EQ(Result({n, 3, 4}, "flatten", {}), "[n, 12]");
  EXPECT_EQ(Result({n, 3, 4}, "flatten", {{"axis", int64_t{0}}}), "[1, 12*n]");
}

TEST(InferTest, Slicing) {
  const auto slice = [](const Shape& shape, const char* start, const char* end, int64_t step = 1) {
    return Result(
        shape, "slice",
        {{"starts", std::string(start)}, {"ends", std::string(end)}, {"steps", L({step})}});
  };
  EXPECT_EQ(slice({10}, "[2]", "[5]"), "[3]");
  EXPECT_EQ(slice({10}, "[-3]", "[100]"), "[3]");
  EXPECT_EQ(slice({10}, "[8]", "[2]"), "[0]");
  EXPECT_EQ(slice({10}, "[-1]", "[-11]", -1), "[10]");
  EXPECT_EQ(slice({10}, "[7]", "[1]", -3), "[2]");
  EXPECT_EQ(slice({10}, "[0]", "[10]", 3), "[4]");
  EXPECT_EQ(slice({n}, "[0]", "[9223372036854775807]"), "[n]");
  EXPECT_EQ(slice({n}, "[0]", "[-1]"), "[n - 1] if n - 1 >= 0");
  EXPECT_EQ(slice({n}, "[0]", "[4]"), "[min(n, 4)]");
  EXPECT_EQ(slice({n * 2}, "[0]", "[9223372036854775807]", 2), "[n]");
  EXPECT_THAT(slice({n}, "[0]", "[1]", 0), HasSubstr("step"));
}

// What extents of inputs decide is assumed; of others, both cases are kept.
TEST(InferTest, SlicesWhoseBoundsAreSymbols) {
  const auto slice = [](const Shape& shape, const char* start, const char* end, bool told) {
    GraphBuilder b("g");
    if (told) b.Input("teller", DType::kF32, {n, m});
    const ValueId y =
        b.Op("slice", {b.Input("x", DType::kF32, shape)},
             {{"starts", std::string(start)}, {"ends", std::string(end)}, {"axes", L({0})}});
    if (!b.status().ok()) return std::string(b.status().message());
    std::string text = ToString(b.value(y).shape);
    for (const Guard& guard : b.graph().guards()) text += " if " + guard.ToString();
    return text;
  };
  EXPECT_EQ(slice({512}, "[0]", "[n]", true), "[n] if -n + 512 >= 0");
  EXPECT_EQ(slice({512}, "[0]", "[n]", false), "[min(n, 512)]");
  EXPECT_EQ(slice({n * 2}, "[0]", "[2147483647]", true), "[2*n] if -2*n + 2147483647 >= 0");
  EXPECT_EQ(slice({n * 2}, "[0]", "[2147483647]", false), "[min(2*n, 2147483647)]");
  EXPECT_EQ(slice({n}, "[-m]", "[9223372036854775807]", true), "[m] if -m < 0 if -m + n >= 0");
  EXPECT_EQ(slice({512}, "[n]", "[0]", true), "[0] if -n + 512 >= 0 if -n < 0");
  EXPECT_EQ(slice({n}, "[min(n, m)]", "[9223372036854775807]", false), "[n - min(m, n)]");
}

TEST(InferTest, JoiningAndCutting) {
  EXPECT_EQ(Both({n, 3}, {n, m}, "concat", {{"axis", int64_t{1}}}), "[n, m + 3]");
  EXPECT_EQ(Both({n, 3}, {m, 3}, "concat", {{"axis", int64_t{-2}}}), "[m + n, 3]");
  EXPECT_EQ(Both({n, 3}, {m, 3}, "concat", {{"axis", int64_t{1}}}), "[n, 6] if m == n");
  EXPECT_EQ(Result({n, 3}, "pad", {{"pads", L({1, 0, 2, -1})}}), "[n + 3, 2]");
  EXPECT_EQ(Result({n, 3}, "transpose", {}), "[3, n]");
  EXPECT_EQ(Result({n, 1}, "expand", Dims("shape", "[4, 1, 6]")), "[4, n, 6]");
  EXPECT_EQ(Result({n, 3}, "upsample", {{"scales", L({1, 2})}}), "[n, 6]");
}

TEST(InferTest, EqualPartsNeedAGuard) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {n, 6});
  b.Ops("split", {x}, {{"axis", int64_t{0}}, {"split", std::vector<int64_t>{2, 3}}});
  EXPECT_THAT(b.graph().guards(), ElementsAre(Guard::Equal(n, 5)));
}

TEST(InferTest, MatrixProducts) {
  EXPECT_EQ(Both({n, 3, 4}, {4, 5}, "matmul"), "[n, 3, 5]");
  EXPECT_EQ(Both({2, 1, 3, 4}, {n, 4, 5}, "matmul"), "[2, n, 3, 5]");
  EXPECT_EQ(Both({4}, {4, 5}, "matmul"), "[5]");
  EXPECT_EQ(Both({3, 4}, {4}, "matmul"), "[3]");
  EXPECT_EQ(Both({4}, {4}, "matmul"), "[]");
  EXPECT_EQ(Both({4, 3}, {5, 4}, "matmul", {{"trans_a", int64_t{1}}, {"trans_b", int64_t{1}}}),
            "[3, 5]");
  EXPECT_EQ(Both({n, m}, {4, 5}, "matmul"), "[n, 5] if m == 4");
  EXPECT_THAT(Both({3, 4}, {5, 4}, "matmul"), HasSubstr("4 and 5 differ"));
  EXPECT_THAT(Both({3, 4}, {}, "matmul"), HasSubstr("rank must be at least 1"));
}

TEST(InferTest, Windows) {
  EXPECT_EQ(Both({n, 3, 224, 224}, {64, 3, 7, 7}, "conv",
                 {{"strides", L({2, 2})}, {"pads", L({3, 3, 3, 3})}}),
            "[n, 64, 112, 112]");
  EXPECT_EQ(Both({n, 4, m}, {8, 2, 3}, "conv", {{"group", int64_t{2}}, {"pads", L({1, 1})}}),
            "[n, 8, m]");
  EXPECT_EQ(Both({1, 4, m}, {8, 4, 3}, "conv", {{"strides", L({2})}, {"pads", L({1, 1})}}),
            "[1, 8, (m + 1)/2]");
  EXPECT_EQ(Both({n, 16, 4, 4}, {16, 3, 4, 4}, "conv_transpose",
                 {{"strides", L({2, 2})}, {"pads", L({1, 1, 1, 1})}}),
            "[n, 3, 8, 8]");
  EXPECT_EQ(Result({n, 3, 8, 8}, "max_pool", {{"kernel", L({3, 3})}, {"strides", L({2, 2})}}),
            "[n, 3, 3, 3]");
  EXPECT_EQ(Result({n, 3, 8, 8}, "max_pool",
                   {{"kernel", L({3, 3})}, {"strides", L({2, 2})}, {"ceil_mode", int64_t{1}}}),
            "[n, 3, 4, 4]");
  EXPECT_THAT(Both({1, 3, 4, 4}, {8, 4, 3, 3}, "conv"), HasSubstr("3 and 4 differ"));
  EXPECT_THAT(Both({1, 3, 2, 2}, {8, 3, 5, 5}, "conv"), HasSubstr("would have the shape"));
  EXPECT_THAT(Result({1, 3, 4}, "max_pool", {{"kernel", L({0})}}), HasSubstr("kernel 0"));
}

// Reads beyond the data: indices of more columns than it has, and an operand that is not there.
TEST(InferTest, OperandsThatWouldBeReadOutsideAreRefused) {
  GraphBuilder b("g");
  b.Op("gather_elements", {b.Input("x", DType::kF32, {2, 2}), b.Input("i", DType::kI64, {2, 3})},
       {{"axis", int64_t{0}}});
  EXPECT_THAT(b.status().message(), HasSubstr("the indices have the extent 3 along axis 1"));
  GraphBuilder c("g");
  const ValueId x = c.Input("x", DType::kF32, {2});
  c.Op("concat", {x, ValueId{}, x}, {{"axis", int64_t{0}}});
  EXPECT_THAT(c.status().message(), HasSubstr("input 1 is absent"));
}

TEST(InferTest, HostileExtentsAreRefused) {
  const int64_t big = int64_t{1} << 62;
  EXPECT_THAT(Result({big}, "expand", {{"shape", L({8, big})}}),
              HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(
      Result({n}, "reshape", Dims("shape", "[9223372036854775807, 9223372036854775807, -1]")),
      testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace kiln
