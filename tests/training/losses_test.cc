// SPDX-License-Identifier: Apache-2.0
// Losses against the formulas of torch.nn.functional, written a second time in doubles.
#include "graph/training/losses.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln::training {
namespace {

constexpr int64_t kBatch = 3, kClasses = 5, kPlaces = 2;

struct Data {
  std::vector<double> logits, probabilities, classes, weight;

  double& at(std::vector<double>& of, int64_t n, int64_t c, int64_t p) const {
    return of[static_cast<size_t>((n * kClasses + c) * kPlaces + p)];
  }
};

Data Drawn(double size) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Data data;
  for (int64_t i = 0; i < kBatch * kClasses * kPlaces; ++i) {
    data.logits.push_back(size * normal(random));
    data.probabilities.push_back(std::fabs(normal(random)) / 4);
  }
  for (int64_t i = 0; i < kBatch * kPlaces; ++i)
    data.classes.push_back(static_cast<double>(random() % kClasses));
  for (int64_t i = 0; i < kClasses; ++i) data.weight.push_back(0.5 + 0.25 * static_cast<double>(i));
  return data;
}

struct Question {
  bool soft = false, weighted = false;
  std::optional<int64_t> ignore = {};
  double smoothing = 0;
  LossReduction reduction = LossReduction::kMean;
};

// Per place the sum over classes of -w q log softmax; q is the target, smoothed. torch weights a
// class target's own part by w of the target, the smooth part by w of each class, and the mean by
// the sum of w of the targets.
std::vector<double> Expected(Data data, const Question& q) {
  std::vector<double> losses;
  double weights = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t p = 0; p < kPlaces; ++p) {
      double sum = 0, loss = 0;
      for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(data.at(data.logits, n, c, p));
      const auto target = static_cast<int64_t>(data.classes[static_cast<size_t>(n * kPlaces + p)]);
      const bool ignored = !q.soft && q.ignore == target;
      for (int64_t c = 0; c < kClasses && !ignored; ++c) {
        const double log_p = data.at(data.logits, n, c, p) - std::log(sum);
        const double w = q.weighted ? data.weight[static_cast<size_t>(c)] : 1;
        const double hard = q.soft ? data.at(data.probabilities, n, c, p) : (c == target ? 1 : 0);
        loss -= w * ((1 - q.smoothing) * hard + q.smoothing / kClasses) * log_p;
      }
      losses.push_back(loss);
      const double own = q.weighted && !q.soft ? data.weight[static_cast<size_t>(target)] : 1;
      weights += ignored ? 0 : own;
    }
  }
  if (q.reduction == LossReduction::kNone) return losses;
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return {q.reduction == LossReduction::kSum ? sum : sum / weights};
}

std::vector<double> Computed(const Data& data, const Question& q, DType type = DType::kF64) {
  GraphBuilder b("g");
  const Shape shape = {kBatch, kClasses, kPlaces};
  const ValueId logits = b.Input("x", type, shape);
  const ValueId target =
      q.soft ? b.Input("t", type, shape) : b.Input("t", DType::kI64, {kBatch, kPlaces});
  CrossEntropyOptions options = {.weight = {},
                                 .ignore_index = q.ignore,
                                 .label_smoothing = q.smoothing,
                                 .reduction = q.reduction};
  if (q.weighted) options.weight = b.Constant(Make(type, {kClasses}, data.weight));
  b.Output(CrossEntropy(b, logits, target, options), "loss");
  const absl::StatusOr<Graph> graph = std::move(b).Finish();
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const std::vector<int64_t> extents = {kBatch, kClasses, kPlaces};
  const Tensor given =
      q.soft ? Make(type, extents, data.probabilities) : I64({kBatch, kPlaces}, data.classes);
  const absl::StatusOr<std::vector<Tensor>> out =
      Interpret(*graph, std::vector<Tensor>{Make(type, extents, data.logits), given});
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? Values((*out)[0]) : std::vector<double>();
}

TEST(CrossEntropy, IsTorchs) {
  const Data data = Drawn(2);
  for (const bool soft : {false, true}) {
    for (const bool weighted : {false, true}) {
      for (const double smoothing : {0.0, 0.1}) {
        for (const int ignore : {-100, 2}) {
          for (const auto reduction :
               {LossReduction::kNone, LossReduction::kSum, LossReduction::kMean}) {
            const Question q = {soft, weighted, ignore, smoothing, reduction};
            EXPECT_THAT(Computed(data, q),
                        testing::Pointwise(testing::DoubleNear(1e-12), Expected(data, q)))
                << soft << weighted << smoothing << ignore << static_cast<int>(reduction);
          }
        }
      }
    }
  }
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  for (const DType type : {DType::kF32, DType::kF16}) {
    for (const double loss : Computed(Drawn(5000), {.reduction = LossReduction::kNone}, type)) {
      EXPECT_TRUE(std::isfinite(loss));
      EXPECT_GE(loss, 0);
    }
  }
}

TEST(CrossEntropy, TakesASymbolicNumberOfClasses) {
  GraphBuilder b("g");
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), Dim::Symbol("c")});
  const ValueId t = b.Input("t", DType::kI32, {Dim::Symbol("n")});
  b.Output(CrossEntropy(b, x, t, {.weight = {}, .label_smoothing = 0.5}), "loss");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                            Interpret(graph, std::vector<Tensor>{F32({1, 4}, {0, 0, 0, 0}),
                                                                 Make(DType::kI32, {1}, {3})}));
  EXPECT_NEAR(Values(out[0])[0], std::log(4.0), 1e-6);
}

// One loss of x and y, without a reduction.
template <typename Loss>
double Of(double x, double y, Loss&& loss) {
  GraphBuilder b("g");
  const ValueId in_x = b.Input("x", DType::kF64, {1}), in_y = b.Input("y", DType::kF64, {1});
  b.Output(loss(b, in_x, in_y), "loss");
  const absl::StatusOr<Graph> graph = std::move(b).Finish();
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto out = Interpret(
      *graph, std::vector<Tensor>{Make(DType::kF64, {1}, {x}), Make(DType::kF64, {1}, {y})});
  EXPECT_TRUE(out.ok()) << out.status();
  return Values((*out)[0])[0];
}

TEST(Losses, OfPairsAreTorchs) {
  for (const double x : {-30.0, -1.5, 0.0, 0.25, 2.0, 700.0}) {
    for (const double y : {0.0, 0.3, 1.0}) {
      const double d = x - y;
      const auto near = [](double want) { return testing::DoubleNear(want, 1e-12 * (1 + want)); };
      EXPECT_THAT(
          Of(x, y, [](GraphBuilder& b, ValueId u, ValueId v) { return MeanSquaredError(b, u, v); }),
          near(d * d));
      EXPECT_THAT(
          Of(x, y, [](GraphBuilder& b, ValueId u, ValueId v) { return Huber(b, u, v, 1.5); }),
          near(std::fabs(d) <= 1.5 ? d * d / 2 : 1.5 * (std::fabs(d) - 0.75)));
      // torch: (1 - y) x + (1 + (p - 1) y) (log1p(exp(-|x|)) + max(-x, 0))
      const double missed = std::log1p(std::exp(-std::fabs(x))) + std::fmax(-x, 0);
      EXPECT_THAT(
          Of(x, y,
             [](GraphBuilder& b, ValueId u, ValueId v) { return BinaryCrossEntropy(b, u, v); }),
          near((1 - y) * x + missed));
      EXPECT_THAT(Of(x, y,
                     [](GraphBuilder& b, ValueId u, ValueId v) {
                       return BinaryCrossEntropy(b, u, v, b.Scalar(DType::kF64, 3));
                     }),
                  near((1 - y) * x + (1 + 2 * y) * missed));
    }
  }
}

}  // namespace
}  // namespace kiln::training
