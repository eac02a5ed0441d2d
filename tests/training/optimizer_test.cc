// SPDX-License-Identifier: Apache-2.0
// Updates against the formulas of torch.optim, written a second time in doubles, over several steps
// with weights, gradients and learning rates that change.
#include "graph/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "kiln/training.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln::training {
namespace {

constexpr int64_t kElements = 7;
constexpr int kSteps = 6;

// One element: its parameter, gradient and moments, before and after.
struct Element {
  double p, g;
  std::vector<double> moments;
};
using Rule = std::function<void(Element& e, double lr, int t)>;

struct Case {
  std::string name;
  Optimizer optimizer;
  Rule rule;
};

void AdamRule(Element& e, double lr, int t, double b1, double b2, double eps) {
  double &m = e.moments[0], &v = e.moments[1];
  m = b1 * m + (1 - b1) * e.g;
  v = b2 * v + (1 - b2) * e.g * e.g;
  const double m_hat = m / (1 - std::pow(b1, t)), v_hat = v / (1 - std::pow(b2, t));
  e.p -= lr * m_hat / (std::sqrt(v_hat) + eps);
}

std::vector<Case> SgdCases() {
  const auto momentum = [](Element& e, double lr, int t, double mu, double dampening,
                           bool nesterov) {
    double& buffer = e.moments[0];
    buffer = t == 1 ? e.g : mu * buffer + (1 - dampening) * e.g;
    e.p -= lr * (nesterov ? e.g + mu * buffer : buffer);
  };
  return {{"sgd", Sgd{}, [](Element& e, double lr, int) { e.p -= lr * e.g; }},
          {"sgd_decay", Sgd{.weight_decay = 0.1},
           [](Element& e, double lr, int) { e.p -= lr * (e.g + 0.1 * e.p); }},
          {"momentum", Sgd{.momentum = 0.9},
           [=](Element& e, double lr, int t) { momentum(e, lr, t, 0.9, 0, false); }},
          {"dampened", Sgd{.momentum = 0.8, .dampening = 0.5},
           [=](Element& e, double lr, int t) { momentum(e, lr, t, 0.8, 0.5, false); }},
          {"nesterov", Sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
           [=](Element& e, double lr, int t) {
             e.g += 0.01 * e.p;
             momentum(e, lr, t, 0.9, 0, true);
           }}};
}

std::vector<Case> AdamCases() {
  return {
      {"adam", Adam{}, [](Element& e, double lr, int t) { AdamRule(e, lr, t, 0.9, 0.999, 1e-8); }},
      {"adam_decay", Adam{.beta1 = 0.5, .beta2 = 0.7, .epsilon = 0.1, .weight_decay = 0.2},
       [](Element& e, double lr, int t) {
         e.g += 0.2 * e.p;
         AdamRule(e, lr, t, 0.5, 0.7, 0.1);
       }},
      {"adamw", AdamW{},
       [](Element& e, double lr, int t) {
         e.p *= 1 - lr * 0.01;
         AdamRule(e, lr, t, 0.9, 0.999, 1e-8);
       }},
      {"epsilon_hat", Adam{.epsilon = 0.1, .epsilon_hat = true}, [](Element& e, double lr, int t) {
         double &m = e.moments[0], &v = e.moments[1];
         m = 0.9 * m + 0.1 * e.g;
         v = 0.999 * v + 0.001 * e.g * e.g;
         const double size = lr * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
         e.p -= size * m / (std::sqrt(v) + 0.1);
       }}};
}

std::vector<Case> OtherCases() {
  return {{"adagrad", Adagrad{.lr_decay = 0.3, .weight_decay = 0.1},
           [](Element& e, double lr, int t) {
             e.g += 0.1 * e.p;
             e.moments[0] += e.g * e.g;
             e.p -= lr / (1 + (t - 1) * 0.3) * e.g / (std::sqrt(e.moments[0]) + 1e-10);
           }},
          {"rmsprop", RmsProp{.weight_decay = 0.1},
           [](Element& e, double lr, int) {
             e.g += 0.1 * e.p;
             e.moments[0] = 0.99 * e.moments[0] + 0.01 * e.g * e.g;
             e.p -= lr * e.g / (std::sqrt(e.moments[0]) + 1e-8);
           }},
          {"rmsprop_centered", RmsProp{.alpha = 0.9, .momentum = 0.5, .centered = true},
           [](Element& e, double lr, int) {
             e.moments[0] = 0.9 * e.moments[0] + 0.1 * e.g * e.g;
             e.moments[1] = 0.9 * e.moments[1] + 0.1 * e.g;
             const double variance = e.moments[0] - e.moments[1] * e.moments[1];
             e.moments[2] = 0.5 * e.moments[2] + e.g / (std::sqrt(variance) + 1e-8);
             e.p -= lr * e.moments[2];
           }},
          {"lion", Lion{.weight_decay = 0.1}, [](Element& e, double lr, int) {
             const double c = 0.9 * e.moments[0] + 0.1 * e.g;
             e.p = e.p * (1 - lr * 0.1) - lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
             e.moments[0] = 0.99 * e.moments[0] + 0.01 * e.g;
           }}};
}

std::vector<Case> Cases() {
  std::vector<Case> all = SgdCases();
  for (const auto& more : {AdamCases(), OtherCases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

absl::StatusOr<Graph> StepOf(const Optimizer& optimizer, DType type) {
  GraphBuilder b("step");
  const ValueId lr = b.Input("lr", DType::kF32, {}), t = b.Input("t", DType::kI64, {});
  const ValueId p = b.Input("p", type, {kElements}), g = b.Input("g", type, {kElements});
  std::vector<ValueId> moments;
  for (const std::string& name : MomentNames(optimizer))
    moments.push_back(b.Input(name, type, {kElements}));
  const absl::StatusOr<Updated> next = Update(b, optimizer, p, g, moments, lr, t);
  if (!next.ok()) return next.status();
  b.Output(next->parameter, "p_next");
  for (size_t k = 0; k < moments.size(); ++k)
    b.Output(next->moments[k], MomentNames(optimizer)[k] + "_next");
  return std::move(b).Finish();
}

class OptimizerTest : public testing::TestWithParam<Case> {};

TEST_P(OptimizerTest, IsTorchsFormula) {
  const Case& c = GetParam();
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, StepOf(c.optimizer, DType::kF64));
  std::vector<Element> want(kElements);
  for (Element& e : want)
    e = {normal(random), 0, std::vector<double>(MomentNames(c.optimizer).size(), 0)};
  std::vector<Tensor> state;
  std::vector<double> p;
  for (const Element& e : want) p.push_back(e.p);
  state.push_back(Make(DType::kF64, {kElements}, p));
  for (size_t k = 0; k < want[0].moments.size(); ++k)
    state.push_back(Make(DType::kF64, {kElements}, std::vector<double>(kElements, 0)));

  for (int t = 1; t <= kSteps; ++t) {
    const auto lr = static_cast<double>(static_cast<float>(0.1 / t));
    std::vector<double> g;
    for (Element& e : want) {
      e.g = normal(random);
      g.push_back(e.g);
      c.rule(e, lr, t);
    }
    std::vector<Tensor> inputs = {F32({}, {lr}), I64({}, {static_cast<double>(t)}), state[0],
                                  Make(DType::kF64, {kElements}, g)};
    inputs.insert(inputs.end(), state.begin() + 1, state.end());
    KILN_ASSERT_OK_AND_ASSIGN(state, Interpret(graph, inputs));
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(ReadFloat(state[0], static_cast<int64_t>(i)), want[i].p, 1e-12) << t;
      for (size_t k = 0; k < want[i].moments.size(); ++k)
        EXPECT_NEAR(ReadFloat(state[k + 1], static_cast<int64_t>(i)), want[i].moments[k], 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Optimizer, StatesKeepTheirTypes) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, StepOf(AdamW{}, type));
    for (const Graph::Output& output : graph.outputs())
      EXPECT_EQ(graph.value(output.value).type, type);
  }
}

TEST(Optimizer, RefusesWrongOptions) {
  const auto error = [](const Optimizer& o) { return std::string(CheckOptimizer(o).message()); };
  EXPECT_EQ(error(Adam{.beta1 = 1}), "optimizer: beta1 is 1, expected 0 to below 1");
  EXPECT_EQ(error(Sgd{.momentum = -1}), "optimizer: momentum is -1, expected 0 to below infinity");
  EXPECT_THAT(error(Sgd{.nesterov = true}), testing::HasSubstr("give a momentum"));
  EXPECT_THAT(error(Lion{.weight_decay = std::nan("")}), testing::HasSubstr("is nan"));
  for (const Case& c : Cases()) EXPECT_EQ(error(c.optimizer), "") << c.name;
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {2});
  EXPECT_THAT(std::string(Update(b, Adam{}, x, x, {x}, x, x).status().message()),
              testing::HasSubstr("has 1 moments, expected 2"));
}

TEST(Clipping, KeepsTheGlobalNorm) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {2}), y = b.Input("y", DType::kF32, {1, 1});
  const Clipped clipped = ClipByGlobalNorm(b, {x, y}, 6.5);
  for (size_t k = 0; k < 2; ++k) b.Output(clipped.gradients[k], "g" + std::to_string(k));
  b.Output(clipped.norm, "norm");
  b.Output(ClipByValue(b, x, 3.5), "by_value");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  const auto run = [&](double a, double c, double d) {
    absl::StatusOr<std::vector<Tensor>> out =
        Interpret(graph, std::vector<Tensor>{F32({2}, {a, c}), F32({1, 1}, {d})});
    EXPECT_TRUE(out.ok()) << out.status();
    return *std::move(out);
  };
  const std::vector<Tensor> long_one = run(3, -4, 12);  // norm 13
  EXPECT_THAT(Values(long_one[0]), testing::Pointwise(testing::DoubleNear(1e-6), {1.5, -2.0}));
  EXPECT_THAT(Values(long_one[1]), testing::Pointwise(testing::DoubleNear(1e-6), {6.0}));
  EXPECT_NEAR(Values(long_one[2])[0], 13, 1e-6);
  EXPECT_THAT(Values(long_one[3]), testing::ElementsAre(3, -3.5));
  EXPECT_THAT(Values(run(3, 4, 0)[0]), testing::ElementsAre(3, 4));  // shorter ones stay
  EXPECT_THAT(Values(run(0, 0, 0)[0]), testing::ElementsAre(0, 0));
}

TEST(Schedule, IsTorchs) {
  const LearningRateSchedule constant = {.lr = 0.5, .warmup = 4, .warmup_start = 0.2, .decay = {}};
  const double want[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.5};
  for (int step = 0; step < 6; ++step) EXPECT_NEAR(LearningRate(constant, step), want[step], 1e-15);
  const LearningRateSchedule cosine = {.lr = 1, .decay = CosineDecay{.steps = 4, .lowest = 0.1}};
  // 0.1 + 0.9 (1 + cos(pi k / 4)) / 2
  for (const auto& [step, lr] :
       {std::pair(0, 1.0), {1, 0.868198051533946}, {2, 0.55}, {4, 0.1}, {9, 0.1}})
    EXPECT_NEAR(LearningRate(cosine, step), lr, 1e-14);
  const LearningRateSchedule steps = {.lr = 1, .decay = StepDecay{.every = 3, .factor = 0.5}};
  EXPECT_EQ(LearningRate(steps, 2), 1);
  EXPECT_EQ(LearningRate(steps, 3), 0.5);
  EXPECT_EQ(LearningRate(steps, 8), 0.25);
  const LearningRateSchedule exponential = {
      .lr = 2, .warmup = 2, .decay = ExponentialDecay{.factor = 0.5}};
  EXPECT_EQ(LearningRate(exponential, 0), 0);
  EXPECT_EQ(LearningRate(exponential, 5), 0.25);
}

}  // namespace
}  // namespace kiln::training
