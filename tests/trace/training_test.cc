// SPDX-License-Identifier: Apache-2.0
// A network that is trained through a trace has the parameters that kiln::Trainer gives it, bit by
// bit.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_grad.h"
#include "kiln/trace_ops.h"
#include "kiln/trainer.h"

namespace kiln {
namespace {

constexpr int64_t kBatch = 12, kIn = 9, kHidden = 17, kClasses = 5;
constexpr double kRate = 0.05;
const std::array<const char*, 4> kNames = {"w1", "b1", "w2", "b2"};
const std::array<std::vector<int64_t>, 4> kShapes = {
    {{kIn, kHidden}, {kHidden}, {kHidden, kClasses}, {kClasses}}};

Tensor Drawn(std::mt19937& random, const std::vector<int64_t>& shape) {
  std::normal_distribution<float> normal(0, 0.4f);
  Tensor tensor = Tensor::Allocate(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    static_cast<float*>(tensor.data())[i] = normal(random);
  return tensor;
}

Tensor Labels(std::mt19937& random) {
  Tensor tensor = Tensor::Allocate(DType::kI64, {kBatch});
  for (int64_t i = 0; i < kBatch; ++i)
    static_cast<int64_t*>(tensor.data())[i] = static_cast<int64_t>(random() % kClasses);
  return tensor;
}

GraphBuilder Network(const std::vector<Tensor>& parameters) {
  GraphBuilder b("network");
  const ValueId x = b.Input("x", DType::kF32, {kBatch, kIn});
  std::vector<ValueId> p;
  for (size_t k = 0; k < kNames.size(); ++k) p.push_back(b.Constant(parameters[k], kNames[k]));
  const ValueId hidden = b.Op("relu", {b.Op("add", {b.Op("matmul", {x, p[0]}), p[1]})});
  b.Output(b.Op("add", {b.Op("matmul", {hidden, p[2]}), p[3]}), "logits");
  return b;
}

// The cross-entropy, as the trainer has it.
Array Loss(const Array& w1, const Array& b1, const Array& w2, const Array& b2, const Array& x,
           const Array& labels) {
  const Array logits = matmul(relu(matmul(x, w1) + b1), w2) + b2;
  const Array z = logits - reduce_max(logits, {.axes = {1}, .keepdims = 1});
  const Array log_sum = log(reduce_sum(exp(z), {.axes = {1}, .keepdims = 0}));
  const Array is_label =
      iota({.shape = {1, kClasses}, .axis = 1}) == unsqueeze(labels, {.axes = {1}});
  const Array of_label = reduce_sum(where(is_label, z, 0.0f), {.axes = {1}, .keepdims = 0});
  return reduce_mean(log_sum - of_label, {.keepdims = 0});
}

std::array<Array, 5> Step(const Array& w1, const Array& b1, const Array& w2, const Array& b2,
                          const Array& x, const Array& labels) {
  constexpr auto rate = static_cast<float>(kRate);
  const auto [loss, d_w1, d_b1, d_w2, d_b2] =
      value_and_grad<0, 1, 2, 3>(Loss)(w1, b1, w2, b2, x, labels);
  return {loss, w1 - rate * d_w1, b1 - rate * d_b1, w2 - rate * d_w2, b2 - rate * d_b2};
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.num_elements()) * sizeof(float)) ==
             0;
}

void ExpectSameTraining(const CompileOptions& compile) {
  std::mt19937 random(7);
  std::vector<Tensor> parameters;
  for (const std::vector<int64_t>& shape : kShapes) parameters.push_back(Drawn(random, shape));
  TrainerOptions options;
  options.optimizer = training::Sgd();
  options.schedule = {.lr = kRate};
  options.compile = compile;
  absl::StatusOr<Trainer> trainer = Trainer::Create(Network(parameters), options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();

  TraceOptions trace_options;
  trace_options.compile = compile;
  auto step = trace(Step, trace_options);
  std::array<Array, 4> p;
  for (size_t k = 0; k < p.size(); ++k) p[k] = Array::of(parameters[k]);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = Drawn(random, {kBatch, kIn}), labels = Labels(random);
    const absl::StatusOr<double> want = trainer->Step({{"x", x}, {"labels", labels}});
    ASSERT_TRUE(want.ok()) << want.status();
    std::array<Array, 5> made = step(p[0], p[1], p[2], p[3], Array::of(x), Array::of(labels));
    const absl::StatusOr<float> loss = made[0].item<float>();
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_EQ(*loss, static_cast<float>(*want)) << i;
    for (size_t k = 0; k < p.size(); ++k) {
      p[k] = made[k + 1];
      const absl::StatusOr<Tensor> kept = trainer->Parameter(kNames[k]), got = p[k].tensor();
      ASSERT_TRUE(kept.ok() && got.ok()) << kept.status() << got.status();
      EXPECT_TRUE(SameBits(*kept, *got)) << "step " << i << ", " << kNames[k];
    }
  }
  EXPECT_EQ(step.stats().replays, 5);
  EXPECT_EQ(step.stats().segments, 1);
}

TEST(TraceTraining, HasTheBitsOfTheTrainerOnTheVm) {
  CompileOptions compile;
  compile.threads = 1;
  compile.compile_mode = CompileMode::kNever;
  ExpectSameTraining(compile);
}

TEST(TraceTraining, HasTheBitsOfTheTrainerCompiled) {
  CompileOptions compile;
  compile.threads = 1;
  compile.compile_mode = CompileMode::kBlock;
  ExpectSameTraining(compile);
}

}  // namespace
}  // namespace kiln
