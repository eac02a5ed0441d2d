// SPDX-License-Identifier: Apache-2.0
// Compile from the text form: variants, symbols, outputs that no kernel writes, errors.
#include "compiler/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Floats(const std::vector<float>& values, std::vector<int64_t> shape) {
  Tensor t = Tensor::Allocate(DType::kF32, std::move(shape));
  if (!values.empty()) std::memcpy(t.data(), values.data(), values.size() * sizeof(float));
  return t;
}

std::vector<float> ToFloats(const Tensor& t) {
  const float* const data = static_cast<const float*>(t.data());
  return {data, data + t.num_elements()};
}

absl::StatusOr<Model> CompileText(const std::string& text, const CompileOptions& options = OnVm()) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return graph.status();
  return Compile(*std::move(graph), options);
}

TEST(CompileTest, RunsAnyExtentOfASymbol) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model, CompileText("graph g\ninput x : f32 [n, 2]\ny = add(x, x)\noutput y\n"));
  for (int64_t n : {1, 3, 0, 7}) {
    const std::vector<float> values(static_cast<size_t>(2 * n), 1.5f);
    KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", Floats(values, {n, 2})}}));
    EXPECT_THAT(y[0].shape(), ElementsAre(n, 2));
    EXPECT_EQ(ToFloats(y[0]), std::vector<float>(static_cast<size_t>(2 * n), 3.0f));
  }
}

// Rows of nothing between rows of something: there is no memory that compiled code could read in
// their place.
TEST(CompileTest, AnInputWithoutElementsIsNotReadByCompiledCode) {
  CompileOptions options = OnVm();
  options.compile_mode = CompileMode::kBlock;
  options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  KILN_ASSERT_OK_AND_ASSIGN(Model model,
                            CompileText("graph g\ninput x : f32 [n, 500]\ninput y : f32 [m, 500]\n"
                                        "a = exp(x)\nb = neg(y)\nz = concat(a, b) {axis = 0}\n"
                                        "w = add(z, z)\noutput w\n",
                                        options));
  void* const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  const std::vector<float> ones(1000, 1.0f);
  for (const bool first : {true, false}) {
    const Tensor empty = Tensor::View(nothing, DType::kF32, {0, 500});
    const Tensor full = Floats(ones, {2, 500});
    KILN_ASSERT_OK_AND_ASSIGN(
        const auto w, model.Run({{"x", first ? empty : full}, {"y", first ? full : empty}}));
    EXPECT_EQ(ToFloats(w[0]), std::vector<float>(1000, first ? -2.0f : 2 * std::exp(1.0f)));
  }
  munmap(nothing, 4096);
}

TEST(CompileTest, AStateIsUpdatedInItsOwnMemoryWithTheSameBits) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      CompileText("graph g\ninput p : f32 [n]\ninput m : f32 [n]\ninput v : f32 [n]\n"
                  "input g : f32 [n]\nm2 = sub(m, g)\ngg = mul(g, g)\nv2 = add(v, gg)\n"
                  "r = sqrt(v2)\nd = div(m2, r)\np2 = sub(p, d)\n"
                  "output p2\noutput m2\noutput v2\n"));
  for (const int64_t n : {1, 100, 5000}) {
    const auto values = [n](float scale) {
      std::vector<float> made;
      for (int64_t i = 0; i < n; ++i) made.push_back(scale * (1 + static_cast<float>(i % 97)));
      return Floats(made, {n});
    };
    Tensor p = values(1), m = values(0.5F), v = values(0.25F), g = values(2);
    KILN_ASSERT_OK_AND_ASSIGN(const auto want, model.Run({{"p", p}, {"m", m}, {"v", v}, {"g", g}}));
    Context context = model.NewContext();
    for (const auto& [name, tensor] : {std::pair("p", p), {"m", m}, {"v", v}, {"g", g}})
      KILN_ASSERT_OK(context.Bind(name, tensor));
    for (const auto& [name, tensor] : {std::pair("p2", p), {"m2", m}, {"v2", v}})
      KILN_ASSERT_OK(context.BindOutput(name, tensor));
    KILN_ASSERT_OK(context.Run());
    EXPECT_EQ(ToFloats(p), ToFloats(want[0]));
    EXPECT_EQ(ToFloats(m), ToFloats(want[1]));
    EXPECT_EQ(ToFloats(v), ToFloats(want[2]));
  }
}

// What a port says of an output holds for every variant; the rest is checked when a run knows its
// variant, before anything is written.
TEST(Compile, AnOutputsPortIsOpenWhereAGuardDecides) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(graph g
input x : f32 [a, 3]
z : f32 [0, 3] = slice(x) {axes = [0], ends = [-2], starts = [-3], steps = [-2]}
w : f32 [3] = reduce_sum(x) {axes = [0], keepdims = 0}
y : f32 [0, 3] = add(z, w)
output y
output w
)");
  KILN_ASSERT_OK(graph.status());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*graph, OnVm()));
  EXPECT_THAT(model.outputs()[0].shape, ElementsAre(Dim::Symbol("y_dim0"), Dim::Symbol("y_dim1")));
  EXPECT_THAT(model.outputs()[1].shape, ElementsAre(Dim(3)));
  Context context = model.NewContext();
  const Tensor out = Floats({-1, -1, -1}, {1, 3});
  KILN_ASSERT_OK(context.BindOutput("y", out));
  EXPECT_FALSE(context.BindOutput("y", Floats({0, 0}, {2})).ok());
  EXPECT_FALSE(context.BindOutput("w", Floats({0, 0}, {2})).ok());
  KILN_ASSERT_OK(context.Bind("x", Floats({1, 2, 3}, {1, 3})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(ToFloats(out), ElementsAre(2, 4, 6));
  std::copy_n(std::vector<float>(3, -1).data(), 3, static_cast<float*>(out.data()));
  KILN_ASSERT_OK(context.Bind("x", Floats(std::vector<float>(12, 1), {4, 3})));
  EXPECT_THAT(context.Run().ToString(), HasSubstr("bound memory is [1, 3], the result [0, 3]"));
  EXPECT_THAT(ToFloats(out), ElementsAre(-1, -1, -1));
}

TEST(CompileTest, InputsThatShareASymbolGetAVariantWhenTheyDiffer) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      CompileText("graph g\ninput x : f32 [n]\ninput y : f32 [n]\nz = add(x, y)\noutput z\n"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto same,
                            model.Run({{"x", Floats({1, 2}, {2})}, {"y", Floats({10, 20}, {2})}}));
  EXPECT_THAT(ToFloats(same[0]), ElementsAre(11, 22));
  KILN_ASSERT_OK_AND_ASSIGN(const auto broadcast,
                            model.Run({{"x", Floats({1, 2}, {2})}, {"y", Floats({10}, {1})}}));
  EXPECT_THAT(ToFloats(broadcast[0]), ElementsAre(11, 12));
  EXPECT_FALSE(model.Run({{"x", Floats({1, 2}, {2})}, {"y", Floats({1, 2, 3}, {3})}}).ok());
}

TEST(CompileTest, WrongInputsAreNamedWithBothValues) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model,
                            CompileText("graph g\ninput x : f32 [n, 2]\ny = exp(x)\noutput y\n"));
  const auto message = [&](std::vector<std::pair<std::string, Tensor>> inputs) {
    return std::string(model.Run(inputs).status().message());
  };
  EXPECT_THAT(message({{"x", Floats({1, 2, 3}, {1, 3})}}),
              AllOf(HasSubstr("\"x\""), HasSubstr("3"), HasSubstr("2")));
  EXPECT_THAT(message({{"x", Floats({1, 2}, {2})}}), AllOf(HasSubstr("\"x\""), HasSubstr("rank")));
  EXPECT_THAT(message({{"x", Tensor::Allocate(DType::kI32, {1, 2})}}),
              AllOf(HasSubstr("i32"), HasSubstr("f32")));
  EXPECT_THAT(message({}), HasSubstr("\"x\""));
  EXPECT_THAT(message({{"x", Floats({1, 2}, {1, 2})}, {"q", Floats({1}, {1})}}),
              HasSubstr("\"q\""));
}

TEST(CompileTest, OutputsThatNoKernelWritesAreCopied) {
  KILN_ASSERT_OK_AND_ASSIGN(
      Model model,
      CompileText(
          "graph g\ninput x : f32 [2]\nconst c : f32 [2] = [5, 6]\ny = neg(x)\noutput x\noutput c\n"
          "output y\noutput y2 = y\n"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", Floats({1, 2}, {2})}}));
  ASSERT_EQ(out.size(), 4u);
  EXPECT_THAT(ToFloats(out[0]), ElementsAre(1, 2));
  EXPECT_THAT(ToFloats(out[1]), ElementsAre(5, 6));
  EXPECT_THAT(ToFloats(out[2]), ElementsAre(-1, -2));
  EXPECT_THAT(ToFloats(out[3]), ElementsAre(-1, -2));
}

TEST(CompileTest, AViewOfAResultIsAnOutput) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, CompileText("graph g\ninput x : f32 [2, 3]\ny = neg(x)\nz "
                                                     "= reshape(y) {shape = [3, 2]}\noutput z\n"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", Floats({1, 2, 3, 4, 5, 6}, {2, 3})}}));
  EXPECT_THAT(out[0].shape(), ElementsAre(3, 2));
  EXPECT_THAT(ToFloats(out[0]), ElementsAre(-1, -2, -3, -4, -5, -6));
}

TEST(CompileTest, RefusesBadOptions) {
  CompileOptions options = OnVm();
  options.graph_opt_level = 4;
  EXPECT_THAT(CompileText("graph g\ninput x : f32 [2]\ny = neg(x)\noutput y\n", options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options = OnVm();
  options.disabled_passes = {"no_such_pass"};
  EXPECT_THAT(CompileText("graph g\ninput x : f32 [2]\ny = neg(x)\noutput y\n", options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CompileTest, NumbersOfThreadsAndJobsHaveLimits) {
  const std::string text = "graph g\ninput x : f32 [2]\ny = neg(x)\noutput y\n";
  CompileOptions threads = OnVm();
  threads.threads = 2'000'000'000;
  EXPECT_THAT(CompileText(text, threads),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("threads: is 2000000000, expected 0 (all) to 1024")));
  CompileOptions jobs = OnVm();
  jobs.build_jobs = -1;
  EXPECT_THAT(CompileText(text, jobs), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("build_jobs: is -1, expected 0")));
  jobs.build_jobs = 2'000'000'000;
  EXPECT_THAT(CompileText(text, jobs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "build_jobs: is 2000000000, expected 0 (all) to 1024"));
  CompileOptions workspace = OnVm();
  workspace.workspace_limit = -1;
  EXPECT_THAT(CompileText(text, workspace),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "workspace_limit: is -1, expected 0 (no limit) or more"));
}

}  // namespace
}  // namespace kiln
