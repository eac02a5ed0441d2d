// SPDX-License-Identifier: Apache-2.0
// The published table of gradients where functions have none, or several: docs/gradients.md.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradient/gradients.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// Lists of numbers as inputs x, y, z, f64 [n] each; the gradients of the sum of what `call` gives.
struct Kink {
  const char* call;
  std::vector<std::vector<double>> inputs, gradients;
};

const Kink kKinks[] = {
    {"relu(x)", {{0, -0.0, kNan}}, {{0, 0, 1}}},
    {"abs(x)", {{0, -0.0, kNan}}, {{0, 0, kNan}}},
    {"sign(x)", {{0, 1}}, {{0, 0}}},
    {"floor(x)", {{1, 1.5}}, {{0, 0}}},
    {"sqrt(x)", {{0, -1}}, {{kInf, kNan}}},
    {"rsqrt(x)", {{0}}, {{-kInf}}},
    {"log(x)", {{0, -1, kInf}}, {{kInf, -1, 0}}},
    {"exp(x)", {{-kInf, kInf}}, {{0, kInf}}},
    {"reciprocal(x)", {{0}}, {{-kInf}}},
    {"div(x, y)", {{1, 0}, {0, 0}}, {{kInf, kInf}, {-kInf, kNan}}},
    {"max(x, y)", {{1, 1, 2, kNan}, {1, 2, 1, 0}}, {{.5, 0, 1, 1}, {.5, 1, 0, 1}}},
    {"min(x, y)", {{1, 1, 2, kNan}, {1, 2, 1, 0}}, {{.5, 1, 0, 1}, {.5, 0, 1, 1}}},
    {"clip(x, y, z)",
     {{0, 1, 2, -1, kNan, 0.5}, {0, 0, 0, 0, 0, 1}, {1, 1, 1, 1, 1, 0}},
     {{1, 1, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0}, {0, 0, 1, 0, 0, 1}}},
    {"pow(x, y)",
     {{0, 0, 0, -1, 2, 0}, {0, 1, 2, 2, 0, -1}},
     {{0, 1, 0, -2, 0, -kInf}, {0, 0, 0, kNan, std::log(2), -kInf}}},
    {"leaky_relu(x) {alpha = 0.25}", {{0, -1, kNan}}, {{.25, .25, .25}}},
    {"prelu(x, y)", {{0, 1}, {.5, .5}}, {{.5, 1}, {0, 0}}},
    {"elu(x) {alpha = 2.0}", {{0}}, {{2}}},
    {"celu(x) {alpha = 2.0}", {{0}}, {{1}}},
    {"selu(x) {alpha = 2.0, gamma = 0.5}", {{0}}, {{1}}},
    {"hard_sigmoid(x) {alpha = 0.25}", {{-2, 2, 0}}, {{0, 0, .25}}},
    {"hard_swish(x)", {{-4, 4}}, {{0, 1}}},
    {"thresholded_relu(x)", {{1, 2}}, {{0, 1}}},
    {"softsign(x)", {{0}}, {{1}}},
    {"asin(x)", {{1, -1, 2}}, {{kInf, kInf, kNan}}},
    {"acos(x)", {{1}}, {{-kInf}}},
    {"acosh(x)", {{1}}, {{kInf}}},
    {"atanh(x)", {{1}}, {{kInf}}},
    {"stop_gradient(x)", {{1}}, {{0}}},
    {"reduce_max(x)", {{1, 3, 3, 0}}, {{0, .5, .5, 0}}},
    {"reduce_min(x)", {{1, 3, 3, 1}}, {{.5, 0, 0, .5}}},
    {"reduce_prod(x)", {{2, 0, 3}}, {{0, 6, 0}}},
    {"reduce_prod(x)", {{0, 0, 3}}, {{0, 0, 0}}},
    {"reduce_l1(x)", {{0, -2}}, {{0, -1}}},
    {"reduce_l2(x)", {{0, 0}}, {{0, 0}}},
    {"cumulative(x) {product = 1}", {{2, 0, 3}}, {{1, 8, 0}}},
};

TEST(Kinks, AreAsPublished) {
  for (const Kink& kink : kKinks) {
    SCOPED_TRACE(kink.call);
    std::string text = "graph kink\n";
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < kink.inputs.size(); ++k) {
      const auto count = static_cast<int64_t>(kink.inputs[k].size());
      absl::StrAppend(&text, "input ", std::string(1, static_cast<char>('x' + k)), " : f64 [",
                      count, "]\n");
      inputs.push_back(Make(DType::kF64, {count}, kink.inputs[k]));
    }
    absl::StrAppend(&text, "v = ", kink.call, "\nloss = reduce_sum(v)\noutput loss\n");
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(text));
    KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients,
                              Gradients(graph, graph.outputs()[0].value, graph.inputs()));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> found, Interpret(gradients, inputs));
    for (size_t k = 0; k < kink.gradients.size(); ++k) {
      const std::vector<double> got = Values(found[k + 1]);
      ASSERT_EQ(got.size(), kink.gradients[k].size());
      for (size_t i = 0; i < got.size(); ++i) {
        const double want = kink.gradients[k][i];
        const bool same = std::isnan(want)   ? std::isnan(got[i])
                          : std::isinf(want) ? got[i] == want
                                             : std::abs(got[i] - want) < 1e-6;
        EXPECT_TRUE(same) << "input " << k << ", element " << i << ": " << got[i] << ", not "
                          << want;
      }
    }
  }
}

// A window gives all to its first maximum.
TEST(Kinks, MaxPoolTakesTheFirst) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(R"(graph pool
input x : f64 [1, 1, 4]
v = max_pool(x) {kernel = [3]}
loss = reduce_sum(v)
output loss
)"));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients,
                            Gradients(graph, graph.outputs()[0].value, graph.inputs()));
  const std::vector<Tensor> inputs = {Make(DType::kF64, {1, 1, 4}, {1, 1, 0, 1})};
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> found, Interpret(gradients, inputs));
  EXPECT_EQ(Values(found[1]), (std::vector<double>{1, 1, 0, 0}));
}

// Of updates of one place, the last one.
TEST(Kinks, ScatterTakesTheLast) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(R"(graph scatter
input x : f64 [3]
input u : f64 [3]
const i : i64 [3] = [1, 2, 1]
v = scatter_elements(x, i, u)
loss = reduce_sum(v)
output loss
)"));
  KILN_ASSERT_OK_AND_ASSIGN(const Graph gradients,
                            Gradients(graph, graph.outputs()[0].value, graph.inputs()));
  const std::vector<Tensor> inputs = {Make(DType::kF64, {3}, {1, 2, 3}),
                                      Make(DType::kF64, {3}, {4, 5, 6})};
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> found, Interpret(gradients, inputs));
  EXPECT_EQ(Values(found[1]), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(Values(found[2]), (std::vector<double>{0, 1, 1}));
}

}  // namespace
}  // namespace kiln
