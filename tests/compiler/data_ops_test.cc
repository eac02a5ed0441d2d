// SPDX-License-Identifier: Apache-2.0
// Operators that find, order and write elements as data say, on special values and odd extents: the
// interpreter and compiled programs at both ends of optimisation agree with what is written here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

constexpr double kInf = INFINITY;
const double kNan = std::numeric_limits<double>::quiet_NaN();

MATCHER(Same, "") {
  const auto& [a, b] = arg;
  return (std::isnan(a) && std::isnan(b)) || a == b;
}

// The graph `text`, whose inputs are x0, x1, ..., on all three.
std::vector<absl::StatusOr<std::vector<Tensor>>> RunAll(const std::string& text,
                                                        const std::vector<Tensor>& inputs) {
  absl::StatusOr<Graph> graph = ParseGraph("graph g\n" + text);
  if (!graph.ok()) return {graph.status()};
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t k = 0; k < inputs.size(); ++k) named.emplace_back("x" + std::to_string(k), inputs[k]);
  std::vector<absl::StatusOr<std::vector<Tensor>>> results = {Interpret(*graph, inputs)};
  for (const int level : {0, 3}) {
    CompileOptions options;
    options.graph_opt_level = level;
    options.compile_mode = CompileMode::kNever;
    options.cache.enabled = false;
    options.threads = 2;
    absl::StatusOr<Model> model = Compile(*graph, options);
    results.push_back(model.ok() ? model->Run(named) : model.status());
  }
  return results;
}

void Expect(const std::string& text, const std::vector<Tensor>& inputs,
            const std::vector<std::vector<double>>& want) {
  for (const auto& outputs : RunAll(text, inputs)) {
    KILN_ASSERT_OK(outputs);
    ASSERT_EQ(outputs->size(), want.size());
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_THAT(Values((*outputs)[k]), testing::Pointwise(Same(), want[k])) << text;
  }
}

TEST(DataOps, TopKTakesNanForLargestAndTheFirstOfEqualOnes) {
  Expect("input x0 : f32 [6]\nv, i = top_k(x0) {k = 4}\noutput v\noutput i\n",
         {F32({6}, {1, kNan, -kInf, 3, 3, kInf})}, {{kNan, kInf, 3, 3}, {1, 5, 3, 4}});
  Expect("input x0 : f32 [4]\nv, i = top_k(x0) {k = 2, largest = 0}\noutput v\noutput i\n",
         {F32({4}, {kNan, 2, -kInf, 2})}, {{-kInf, 2}, {2, 1}});
  Expect("input x0 : i64 [2, 0]\nv, i = top_k(x0) {k = 0}\noutput v\noutput i\n", {I64({2, 0}, {})},
         {{}, {}});
}

TEST(DataOps, RunningSumsWrapAndKeepNan) {
  Expect("input x0 : i8 [3]\ny = cumulative(x0)\noutput y\n",
         {Make(DType::kI8, {3}, {100, 100, 100})}, {{100, -56, 44}});
  Expect("input x0 : f32 [n]\ny = cumulative(x0) {reverse = 1, exclusive = 1}\noutput y\n",
         {F32({3}, {kNan, 2, 3})}, {{5, 3, 0}});
  Expect("input x0 : f32 [n]\ny = cumulative(x0)\noutput y\n", {F32({0}, {})}, {{}});
}

TEST(DataOps, ScattersFollowEachOtherAndRefuseIndicesOutside) {
  const std::string nd =
      "input x0 : f32 [4]\ninput x1 : i64 [3, 1]\ninput x2 : f32 [3]\n"
      "y = scatter_nd(x0, x1, x2) {reduction = 1}\noutput y\n";
  Expect(nd, {F32({4}, {1, 2, 3, 4}), I64({3, 1}, {1, -3, 3}), F32({3}, {10, 20, 30})},
         {{1, 32, 3, 34}});
  for (const auto& outputs :
       RunAll(nd, {F32({4}, {1, 2, 3, 4}), I64({3, 1}, {1, 4, 3}), F32({3}, {10, 20, 30})})) {
    EXPECT_EQ(outputs.status().code(), absl::StatusCode::kInvalidArgument) << outputs.status();
  }
}

TEST(DataOps, ScattersOfNothingGiveTheData) {
  for (const char* n : {"0", "n"}) {
    Expect(absl::StrCat("input x0 : f32 [4]\ninput x1 : i64 [", n, ", 1]\ninput x2 : f32 [", n,
                        "]\ny = scatter_nd(x0, x1, x2)\noutput y\n"),
           {F32({4}, {1, 2, 3, 4}), I64({0, 1}, {}), F32({0}, {})}, {{1, 2, 3, 4}});
    Expect(absl::StrCat("input x0 : f32 [2, 2]\ninput x1 : i64 [", n, ", 2]\ninput x2 : f32 [", n,
                        ", 2]\ny = scatter_elements(x0, x1, x2) {axis = 0}\noutput y\n"),
           {F32({2, 2}, {1, 2, 3, 4}), I64({0, 2}, {}), F32({0, 2}, {})}, {{1, 2, 3, 4}});
  }
}

TEST(DataOps, SumsAtPlacesClampAndStartAtZero) {
  const std::string sum =
      "input x0 : i32 [n, 1]\ninput x1 : f32 [n]\ny = scatter_sum(x0, x1) {shape = [4]}\noutput "
      "y\n";
  const auto at = [](std::vector<double> v) {
    return Make(DType::kI32, {static_cast<int64_t>(v.size()), 1}, v);
  };
  Expect(sum, {at({1, -3, 9, -9}), F32({4}, {1, 2, 4, 8})}, {{8, 3, 0, 4}});
  Expect(sum, {at({0, 0, 3}), F32({3}, {kInf, -kInf, kNan})}, {{kNan, 0, 0, kNan}});
  Expect(sum, {at({}), F32({0}, {})}, {{0, 0, 0, 0}});
  Expect(
      "input x0 : i64 [3, 2]\ninput x1 : i64 [3]\n"
      "y = scatter_sum(x0, x1) {shape = [2, 3]}\noutput y\n",
      {I64({3, 2}, {0, 1, -1, -1, 0, 1}), I64({3}, {10, 20, 30})}, {{0, 40, 0, 0, 0, 20}});
  Expect(
      "input x0 : i64 [3, 0]\ninput x1 : f32 [3, 2]\n"
      "y = scatter_sum(x0, x1) {shape = [2]}\noutput y\n",
      {I64({3, 0}, {}), F32({3, 2}, {1, 2, 3, 4, 5, 6})}, {{9, 12}});
  Expect(
      "input x0 : i64 [1, 1]\ninput x1 : f32 [1]\n"
      "y = scatter_sum(x0, x1) {shape = [2]}\noutput y\n",
      {I64({1, 1}, {-1}), F32({1}, {5})}, {{0, 5}});
  Expect(
      "input x0 : i64 [3, 2]\ninput x1 : i64 [3]\n"
      "y = scatter_sum(x0, x1) {shape = [2, 0]}\noutput y\n",
      {I64({3, 2}, {0, 1, -1, -1, 0, 1}), I64({3}, {10, 20, 30})}, {{}});
}

// Random sums of computed slices at computed places, against a loop in their order.
TEST(DataOps, SumsAtPlacesAreInTheOrderOfTheUpdates) {
  uint64_t state = 1;
  const auto below = [&](int64_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>(state >> 33) % n;
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> places(static_cast<size_t>(below(3)));
    for (int64_t& extent : places) extent = 1 + below(30);
    std::vector<int64_t> shape(static_cast<size_t>(1 + below(3)));
    for (int64_t& extent : shape) extent = 1 + below(7) * below(9);
    const auto depth = static_cast<size_t>(below(static_cast<int64_t>(shape.size()) + 1));
    std::vector<int64_t> indices = places, updates = places;
    indices.push_back(static_cast<int64_t>(depth));
    updates.insert(updates.end(), shape.begin() + static_cast<std::ptrdiff_t>(depth), shape.end());
    Tensor at = Tensor::Allocate(DType::kI64, indices), x = Tensor::Allocate(DType::kF32, updates);
    auto* const to = static_cast<int64_t*>(at.data());
    auto* const from = static_cast<float*>(x.data());
    for (int64_t i = 0; i < at.num_elements(); ++i) to[i] = below(24) - 12;
    for (int64_t i = 0; i < x.num_elements(); ++i)
      from[i] =
          std::ldexp(static_cast<float>(below(1 << 24) - (1 << 23)), static_cast<int>(below(9)));
    Tensor sums = Tensor::Allocate(DType::kF32, shape);
    auto* const want = static_cast<float*>(sums.data());
    std::fill(want, want + sums.num_elements(), 0.0F);
    int64_t count = 1, slice = 1;
    for (const int64_t extent : places) count *= extent;
    for (size_t d = depth; d < shape.size(); ++d) slice *= shape[d];
    for (int64_t i = 0; i < count; ++i) {
      int64_t row = 0;
      for (size_t d = 0; d < depth; ++d) {
        const int64_t n = shape[d];
        int64_t index = to[static_cast<size_t>(i) * depth + d] + 1;  // the graph adds 1
        index = std::clamp<int64_t>(index < 0 ? index + n : index, 0, n - 1);
        row = row * n + index;
      }
      for (int64_t k = 0; k < slice; ++k)
        want[row * slice + k] += from[i * slice + k] * from[i * slice + k];
    }
    const std::string text =
        absl::StrCat("input x0 : i64 [", absl::StrJoin(indices, ", "), "]\ninput x1 : f32 [",
                     absl::StrJoin(updates, ", "), "]\nconst one : i64 [] = 1\ni = add(x0, one)\n",
                     "s = mul(x1, x1)\ny = scatter_sum(i, s) {shape = [",
                     absl::StrJoin(shape, ", "), "]}\noutput y\n");
    const auto results = RunAll(text, {at, x});
    for (size_t k = 1; k < results.size(); ++k) {
      KILN_ASSERT_OK(results[k]);
      EXPECT_EQ(0, std::memcmp((*results[k])[0].data(), want,
                               static_cast<size_t>(sums.num_elements()) * sizeof(float)))
          << text;
    }
  }
}

TEST(DataOps, CoordinatesAreClampedAndCountFromTheEnd) {
  Expect(
      "input x0 : f32 [2, 3]\ninput x1 : i32 [2, 1]\n"
      "y = gather_elements(x0, x1) {axis = 1}\noutput y\n",
      {F32({2, 3}, {1, 2, 3, 4, 5, 6}), Make(DType::kI32, {2, 1}, {-1, 7})}, {{3, 6}});
  Expect(
      "input x0 : f32 [2, 3]\ninput x1 : i64 [2]\ninput x2 : i64 [2]\n"
      "y = take(x0, x1, x2)\noutput y\n",
      {F32({2, 3}, {1, 2, 3, 4, 5, 6}), I64({2}, {1, 0}), I64({2}, {0, -1})}, {{4, 3}});
}

TEST(DataOps, RangesOfAnyLengthRun) {
  Expect(
      "input x0 : f32 [n, 2]\ns = iota() {shape = [n, 2]}\nf = cast(s) {to = f32}\n"
      "y = add(x0, f)\noutput y\n",
      {F32({3, 2}, {0, 0, 0, 0, 0, 0})}, {{0, 0, 1, 1, 2, 2}});
}

TEST(DataOps, FloatRemaindersAreThoseOfC) {
  const std::vector<double> x = {5.5, -5.5, 5.5, -5.5, 7, kInf, 1, -0.25, 1e-30, 3};
  const std::vector<double> y = {2, 2, -2, -2, kInf, 2, 0, 1, 1, kNan};
  std::vector<double> want;
  for (size_t i = 0; i < x.size(); ++i) want.push_back(std::fmod(x[i], y[i]));
  want[8] = static_cast<double>(1e-30f);
  const auto n = static_cast<int64_t>(x.size());
  Expect("input x0 : f32 [10]\ninput x1 : f32 [10]\ny = mod(x0, x1) {fmod = 1}\noutput y\n",
         {F32({n}, x), F32({n}, y)}, {want});
}

}  // namespace
}  // namespace kiln
