// SPDX-License-Identifier: Apache-2.0
// Graphs that have no form for open extents, under the guards that their nodes adopt: such a graph
// is made for the numbers of each run, and gives what its text with these numbers gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Counting(std::vector<int64_t> shape) {
  Tensor t = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i)
    static_cast<float*>(t.data())[i] = static_cast<float>(i + 1);
  return t;
}

std::string Text(const absl::StatusOr<std::vector<Tensor>>& outputs) {
  if (!outputs.ok()) return "error";
  std::string text;
  for (const Tensor& given : *outputs) {
    const Tensor tensor = given.is_dense() ? given : given.Clone();
    text += ToString(ToShape(tensor.shape())) + " {";
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      float value;
      std::memcpy(&value, static_cast<const float*>(tensor.data()) + i, sizeof(value));
      text += " " + std::to_string(static_cast<int>(value));
    }
    text += " } ";
  }
  return text;
}

// The text of a graph of an input x : f32 [$n], or [$n, $m], with symbols or with the numbers that
// `shape` says.
std::string TextWith(const std::string& text, const std::vector<int64_t>* shape) {
  const auto size = [&](size_t axis, const char* symbol) {
    return shape == nullptr || axis >= shape->size() ? symbol : std::to_string((*shape)[axis]);
  };
  return "graph g\n" + absl::StrReplaceAll(text, {{"$n", size(0, "n")}, {"$m", size(1, "m")}});
}

absl::StatusOr<Model> Compiled(const std::string& text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text);
  return graph.ok() ? Compile(*graph, OnVm()) : graph.status();
}

std::string Ran(absl::StatusOr<Model> model, const std::vector<int64_t>& shape) {
  if (!model.ok()) return "error";
  std::vector<int64_t> extents = shape;
  // x of [n, n, m] is said as {n, m}.
  if (model->inputs()[0].shape.size() == 3) extents.insert(extents.begin(), shape[0]);
  return Text(model->Run({{"x", Counting(extents)}}));
}

// Compiled once with symbols, the graph gives for every shape what it gives with numbers: a result
// for so many of them.
void ExpectSame(const std::string& text, const std::vector<std::vector<int64_t>>& shapes,
                int results, bool is_for_sizes = true) {
  const absl::StatusOr<Graph> graph = ParseGraph(TextWith(text, nullptr));
  EXPECT_TRUE(graph.ok() && (graph->maker != nullptr) == is_for_sizes) << text;
  const absl::StatusOr<Model> symbols = Compiled(TextWith(text, nullptr));
  KILN_ASSERT_OK(symbols.status());
  int seen = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    const std::string numbers = Ran(Compiled(TextWith(text, &shape)), shape);
    seen += numbers == "error" ? 0 : 1;
    EXPECT_EQ(Ran(symbols, shape), numbers) << ToString(ToShape(shape)) << " of\n" << text;
  }
  EXPECT_EQ(seen, results) << text;
}

TEST(SizedGraph, AnExtentIsOneOnlyWhereTheGuardsAreBroken) {
  ExpectSame(
      "input x : f32 [$n]\ns = slice(x) {starts = [-2], ends = [$n]}\n"
      "y = squeeze(s) {axes = [0]}\noutput y\n",
      {{3}, {1}, {2}, {0}, {1}}, 2);
  // Of one size only, which the guards tell.
  ExpectSame(
      "input x : f32 [$n]\ns = slice(x) {starts = [-101], ends = [-99]}\n"
      "y = squeeze(s) {axes = [0]}\noutput y\n",
      {{3}, {99}, {101}, {100}, {200}}, 1);
}

TEST(SizedGraph, PartsAreThereOnlyWhereTheGuardsAreBroken) {
  ExpectSame(
      "input x : f32 [$n]\ns = slice(x) {starts = [-1], ends = [$n]}\na, b, c = split(s)\n"
      "output a\noutput c\n",
      {{4}, {0}, {1}}, 1);
  ExpectSame(
      "input x : f32 [$n]\ns = slice(x) {starts = [-1], ends = [$n]}\ne = shape(s)\n"
      "minus = neg(e)\ntwice = add(e, e)\nsizes = concat(minus, twice) {axis = 0}\n"
      "a, b = split(s, sizes)\noutput a\noutput b\n",
      {{4}, {0}, {1}, {0}}, 2);
}

TEST(SizedGraph, AValueIsKnownOnlyOfNumbers) {
  ExpectSame(
      "input x : f32 [$n, $m]\nconst zero : i64 [1] = [0]\nconst one : i64 [1] = [1]\n"
      "const back : i64 [1] = [-1]\nconst eight : i64 [1] = [8]\n"
      "s = shape(x)\na = gather(s, zero)\nb = gather(s, one)\nfew = greater(a, one)\n"
      "c = where(few, b, a)\nmore = greater(c, b)\nd = where(more, c, a)\nminus = neg(c)\n"
      "k = mod(minus, d)\nl = div(c, eight)\ny = slice(x, k, l, zero, back)\noutput y\n",
      {{5, 8}, {3, 7}, {1, 1}, {7, 2}}, 4);
}

TEST(SizedGraph, ARuleAgreesWithItselfOnlyOfNumbers) {
  ExpectSame(
      "input x : f32 [$n, $n, $m]\nconst three : i64 [] = 3\nconst low : i64 [1] = [-3]\n"
      "const zero : i64 [1] = [0]\nconst one : i64 [1] = [1]\nconst two : i64 [1] = [2]\n"
      "const axes : i64 [3] = [0, 1, 2]\nconst step : i64 [1] = [3]\ns = shape(x)\n"
      "a = slice(s, zero, one, zero)\nb = slice(s, one, two, zero)\nc = min(a, three)\n"
      "d = div(c, c)\ne = div(b, b)\nstarts = concat(low, e, e) {axis = 0}\n"
      "ends = concat(d, d, a) {axis = 0}\nv = slice(x, starts, ends, axes)\n"
      "y = slice(v, zero, b, one, step)\noutput y\n",
      {{5, 6}, {3, 7}, {1, 1}, {2, 2}}, 4);
}

TEST(SizedGraph, SaysWhatItsInputsAndOutputsAre) {
  const absl::StatusOr<Model> model = Compiled(
      "graph g\ninput x : f32 [n]\ns = slice(x) {starts = [-1], ends = [n]}\na, b, c = split(s)\n"
      "output a\n");
  KILN_ASSERT_OK(model.status());
  EXPECT_THAT(model->inputs()[0].shape, ElementsAre(Dim::Symbol("n")));
  EXPECT_THAT(model->outputs()[0].shape, ElementsAre(Dim::Symbol("a_dim0")));
}

TEST(SizedGraph, RunsInTheInterpreterForItsSizesAlone) {
  KILN_ASSERT_OK_AND_ASSIGN(
      const Graph graph,
      ParseGraph("graph g\ninput x : f32 [n]\ns = slice(x) {starts = [-2], ends = [n]}\n"
                 "y = squeeze(s) {axes = [0]}\noutput y\n"));
  EXPECT_EQ(Text(Interpret(graph, std::vector<Tensor>{Counting({1})})), "[] { 1 } ");
  EXPECT_THAT(Interpret(graph, std::vector<Tensor>{Counting({2})}).status().ToString(),
              HasSubstr("n == 1"));
}

TEST(SizedGraph, AnErrorOfAllSizesIsOneOfTheGraph) {
  const auto error = [](const std::string& text) {
    return ParseGraph("graph g\n" + text).status().ToString();
  };
  EXPECT_THAT(error("input x : f32 [n, 3]\ninput y : f32 [4, m]\nz = matmul(x, y)\noutput z\n"),
              AllOf(HasSubstr("line 4"), HasSubstr("3 and 4 differ")));
  EXPECT_THAT(error("input x : f32 [n]\ny = reshape(x) {shape = [n + 1]}\noutput y\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("n and n + 1 differ")));
  EXPECT_THAT(error("input x : f32 [n]\ny = squeeze(x) {axes = [1]}\noutput y\n"),
              HasSubstr("axis 1"));
}

// What the inputs tell of a guard about what a run finds out holds for values that nobody reads
// too: k + 5 and k + 3 do not broadcast, whatever k is.
TEST(SizedGraph, AGuardOfAValueThatIsNotReadIsNotDropped) {
  ExpectSame(
      "input x : f32 [$n]\nconst three : f32 [3] = [1, 2, 3]\n"
      "found = nonzero(x) {extents = [1, k]}\nrow = reshape(found) {shape = [k]}\n"
      "f = cast(row) {to = f32}\nlong = concat(f, x) {axis = 0}\n"
      "short = concat(f, three) {axis = 0}\ndead = add(long, short)\ny = neg(x)\n"
      "output y\noutput f\n",
      {{3}, {5}, {2}}, 1, false);
}

}  // namespace
}  // namespace kiln
