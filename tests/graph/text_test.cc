// SPDX-License-Identifier: Apache-2.0
#include "graph/text.h"

#include <cmath>

#include "gmock/gmock.h"
#include "graph/graph.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr char kEverything[] =
    "graph `every thing`\n"
    "input x : f32 [n, 64]\n"
    "input `a:0` : i64 [2*n + 1]\n"
    "input input : f32 [n, 64]\n"
    "const c : f32 [] = 0.125\n"
    "const d : f16 [4] = [0.5, nan, -inf, -0.0]\n"
    "const e : f64 [1, 2] = [1e-310, 0.1]\n"
    "const u : u64 [1] = [18446744073709551615]\n"
    "const t : bool [2] = [0, 1]\n"
    "const none : i32 [0, 3] = []\n"
    "guard n % 8 == 0\n"
    "y : f32 [n, 64] = mul(x, c)\n"
    "output_ : f32 [n, 64] = clip(y, _, c) \"the \\\"clip\\\"\"\n"
    "l : f32 [n, 32], r : f32 [n, 32] = split(output_) {axis = 1, split = [32, 32]}\n"
    "v : f32 [n, 2, 32] = reshape(y) {shape = [n, 2, -1]}\n"
    "w : i32 [n, 32] = cast(l) {to = i32}\n"
    "g : f32 [n, 64] = gelu(input) {approximate = \"tanh\"}\n"
    "f : i64 [n] = constant_of_shape() {shape = [n], value = i64 [1] = [7]}\n"
    "k : f32 [n, 64] = leaky_relu(x) {alpha = 0.5}\n"
    "output y\n"
    "output `z:0` = r\n";

TEST(GraphTextTest, PrintsWhatItParsed) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(kEverything));
  EXPECT_EQ(Print(g), kEverything);
}

TEST(GraphTextTest, TypesAndShapesMayBeLeftOut) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph g, ParseGraph("graph g # a comment\n\n  input x:f32[n]\ny=exp( x )\noutput y"));
  EXPECT_EQ(Print(g), "graph g\ninput x : f32 [n]\ny : f32 [n] = exp(x)\noutput y\n");
}

TEST(GraphTextTest, FloatsAreExact) {
  const std::vector<double> values = {0.1f, 1e-45, 3.4028235e38, -0.0, 1.0f / 3, 16777216.0};
  GraphBuilder b("g");
  b.Output(b.Op("neg", {b.Constant(F32({6}, values), "c")}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(Print(g)));
  EXPECT_EQ(Values(*again.value(again.node(NodeId{0}).inputs[0]).constant),
            Values(F32({6}, values)));
}

TEST(GraphTextTest, LongConstantsAreBase64AndLargeOnesADigest) {
  GraphBuilder b("g");
  b.Output(b.Op("neg", {b.Constant(FilledTensor(DType::kF32, {100}, 1.5), "c")}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph g, std::move(b).Finish());
  EXPECT_THAT(Print(g), HasSubstr("const c : f32 [100] = base64 \"AADAP"));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(Print(g)));
  EXPECT_EQ(Print(again), Print(g));

  GraphBuilder large("g");
  large.Output(large.Op("neg", {large.Constant(FilledTensor(DType::kF32, {20000}, 1.5), "c")}),
               "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph h, std::move(large).Finish());
  EXPECT_THAT(Print(h), HasSubstr("const c : f32 [20000] = #"));
  EXPECT_THAT(ParseGraph(Print(h)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("line 2: constant \"c\": the elements are not in the text")));
}

TEST(GraphTextTest, ErrorsNameTheLine) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"", "no statement"},
      {"input x : f32 [n]", "line 1: no \"graph NAME\""},
      {"graph g\ninput x : f99 [n]", "line 2: \"f99\" is no element type"},
      {"graph g\ninput x : f32 [n", "line 2: no list in brackets"},
      {"graph g\ninput x : f32 [-1]", "line 2: input \"x\" has the shape [-1]"},
      {"graph g\ny = exp(x)", "line 2: \"x\" is not defined above"},
      {"graph g\ninput x : f32 [n]\ninput x : f32 [n]", "line 3: \"x\" is defined twice"},
      {"graph g\ninput x : f32 [n]\ny = nothing(x)", "line 3: there is no op \"nothing\""},
      {"graph g\ninput x : f32 [n]\ny = softmax(x) {axes = 1}",
       "line 3: op \"softmax\" has no attribute \"axes\""},
      {"graph g\ninput x : f32 [n]\ny = softmax(x) {axis = a}", "line 3: \"a\" is no integer"},
      {"graph g\ninput x : f32 [n]\ny = softmax(x) {axis = 0, axis = 0}",
       "line 3: attribute \"axis\" is set twice"},
      {"graph g\ninput x : f32 [n]\ny : f16 [n] = exp(x)",
       "line 3: \"y\" is said to be f16; it is f32"},
      {"graph g\ninput x : f32 [n]\ny : f32 [m] = exp(x)", "by the op's rule it is f32 [n]"},
      {"graph g\ninput x : f32 [n]\ny = exp(x) z", "line 3: something unexpected"},
      {"graph g\ninput x : f32 [n]\ny = exp(x\noutput y",
       "line 3: no \")\" at the end of the line"},
      {"graph g\nconst c : u8 [] = 256", "line 2: constant \"c\": \"256\" is no u8"},
      {"graph g\nconst c : f32 [2] = [1.0]", "no \",\""},
      {"graph g\nconst c : f32 [9999999, 9999999] = [1.0]", "too large"},
      {"graph g\nguard n ~ 4", "line 2: guard"},
      {"graph g\ninput x : f32 [2]\noutput y", "line 3: \"y\" is not defined above"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(ParseGraph(c.text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)))
        << c.text;
  }
}

// Every prefix of a good text, and the text without any one byte, is refused or read; never a
// crash.
TEST(GraphTextTest, SurvivesDamage) {
  const std::string text = kEverything;
  for (size_t i = 0; i < text.size(); ++i) {
    (void)ParseGraph(text.substr(0, i)).ok();
    (void)ParseGraph(text.substr(0, i) + text.substr(i + 1)).ok();
  }
}

}  // namespace
}  // namespace kiln
