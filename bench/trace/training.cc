// SPDX-License-Identifier: Apache-2.0
// A step of a network by kiln::Trainer, and the same step as a traced function, in turns: minimum
// and median of single steps in microseconds, and the median of their ratios.
//
//   chrt -f 10 taskset -c 0 kiln-bench-trace-training
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_grad.h"
#include "kiln/trace_ops.h"
#include "kiln/trainer.h"

namespace kiln {
namespace {

constexpr double kRate = 0.01;
struct Sizes {
  int64_t batch, in, hidden, out;
};

// Three layers, and the mean of squared errors.
Array Loss(const Array& w1, const Array& b1, const Array& w2, const Array& b2, const Array& w3,
           const Array& b3, const Array& x, const Array& y) {
  const Array first = relu(matmul(x, w1) + b1);
  const Array error = matmul(relu(matmul(first, w2) + b2), w3) + b3 - y;
  return reduce_mean(error * error, {.keepdims = 0});
}

std::array<Array, 7> Step(const Array& w1, const Array& b1, const Array& w2, const Array& b2,
                          const Array& w3, const Array& b3, const Array& x, const Array& y) {
  constexpr auto rate = static_cast<float>(kRate);
  const auto [loss, d_w1, d_b1, d_w2, d_b2, d_w3, d_b3] =
      value_and_grad<0, 1, 2, 3, 4, 5>(Loss)(w1, b1, w2, b2, w3, b3, x, y);
  return {loss,
          w1 - rate * d_w1,
          b1 - rate * d_b1,
          w2 - rate * d_w2,
          b2 - rate * d_b2,
          w3 - rate * d_w3,
          b3 - rate * d_b3};
}

Tensor Drawn(std::mt19937& random, const std::vector<int64_t>& shape) {
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(shape[0])));
  Tensor tensor = Tensor::Allocate(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    static_cast<float*>(tensor.data())[i] = normal(random);
  return tensor;
}

GraphBuilder Network(const Sizes& n, const std::vector<Tensor>& p) {
  GraphBuilder b("network");
  ValueId y = b.Input("x", DType::kF32, {n.batch, n.in});
  for (size_t k = 0; k < p.size(); k += 2) {
    y = b.Op("add", {b.Op("matmul", {y, b.Constant(p[k])}), b.Constant(p[k + 1])});
    if (k + 2 < p.size()) y = b.Op("relu", {y});
  }
  b.Output(y, "y");
  return b;
}

template <typename F>
double Microseconds(F call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

double Middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Measure(const Sizes& n, int steps) {
  std::mt19937 random(1);
  std::vector<Tensor> p;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{n.in, n.hidden},
                                            {n.hidden},
                                            {n.hidden, n.hidden},
                                            {n.hidden},
                                            {n.hidden, n.out},
                                            {n.out}})
    p.push_back(Drawn(random, shape));
  TrainerOptions options;
  options.loss = training::MeanSquaredErrorLoss();
  options.optimizer = training::Sgd();
  options.schedule = {.lr = kRate};
  options.compile.threads = 1;
  options.compile.compile_mode = CompileMode::kBlock;
  absl::StatusOr<Trainer> trainer = Trainer::Create(Network(n, p), options);
  if (!trainer.ok()) return trainer.status();
  TraceOptions trace_options;
  trace_options.compile = options.compile;
  auto step = trace(Step, trace_options);
  std::array<Array, 6> w;
  for (size_t k = 0; k < w.size(); ++k) w[k] = Array::of(p[k]);
  const Tensor x = Drawn(random, {n.batch, n.in}), y = Drawn(random, {n.batch, n.out});
  std::vector<double> by_trainer, by_trace, ratios;
  absl::Status status;
  for (int i = 0; i < steps + 10; ++i) {
    const double trained = Microseconds([&] {
      const absl::StatusOr<double> loss = trainer->Step({{"x", x}, {"labels", y}});
      if (!loss.ok()) status = loss.status();
    });
    const double traced = Microseconds([&] {
      std::array<Array, 7> made =
          step(w[0], w[1], w[2], w[3], w[4], w[5], Array::of(x), Array::of(y));
      const absl::StatusOr<float> loss = made[0].item<float>();
      if (!loss.ok()) status = loss.status();
      std::move(made.begin() + 1, made.end(), w.begin());
    });
    if (!status.ok()) return status;
    if (i < 10) continue;
    by_trainer.push_back(trained);
    by_trace.push_back(traced);
    ratios.push_back(traced / trained);
  }
  std::printf("batch %3lld, %4lld-%lld-%lld-%lld: trainer %9.2f %9.2f, trace %9.2f %9.2f, %.3f\n",
              static_cast<long long>(n.batch), static_cast<long long>(n.in),
              static_cast<long long>(n.hidden), static_cast<long long>(n.hidden),
              static_cast<long long>(n.out),
              *std::min_element(by_trainer.begin(), by_trainer.end()), Middle(by_trainer),
              *std::min_element(by_trace.begin(), by_trace.end()), Middle(by_trace),
              Middle(ratios));
  return absl::OkStatus();
}

absl::Status Run() {
  for (const auto& [sizes, steps] : std::vector<std::pair<Sizes, int>>{
           {{32, 64, 64, 10}, 2000}, {{64, 784, 256, 10}, 300}, {{128, 512, 512, 64}, 100}}) {
    const absl::Status status = Measure(sizes, steps);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln

int main() {
  const absl::Status status = kiln::Run();
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
