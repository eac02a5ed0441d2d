// SPDX-License-Identifier: Apache-2.0
// A step of a network by kiln::Trainer, and the same step as a traced and as a frozen function, in
// turns: minimum and median of single steps in microseconds, and the median of their ratios to the
// trainer's.
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

// The parameters, and steps that take them from call to call.
template <typename F>
class Traced {
 public:
  Traced(F step, const std::vector<Tensor>& parameters) : step_(std::move(step)) {
    for (size_t k = 0; k < w_.size(); ++k) w_[k] = Array::of(parameters[k].Clone());
  }

  absl::Status operator()(const Tensor& x, const Tensor& y) {
    std::array<Array, 7> made =
        step_(w_[0], w_[1], w_[2], w_[3], w_[4], w_[5], Array::of(x), Array::of(y));
    const absl::StatusOr<float> loss = made[0].item<float>();
    std::move(made.begin() + 1, made.end(), w_.begin());
    return loss.status();
  }

 private:
  F step_;
  std::array<Array, 6> w_;
};

void Show(const char* name, const std::vector<double>& own, const std::vector<double>& trainer) {
  std::vector<double> ratios;
  for (size_t i = 0; i < own.size(); ++i) ratios.push_back(own[i] / trainer[i]);
  std::printf("  %-8s %9.2f %9.2f  %.3f\n", name, *std::min_element(own.begin(), own.end()),
              Middle(own), Middle(ratios));
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
  Traced traced(trace(Step, trace_options), p);
  Traced frozen(freeze(Step, trace_options), p);
  const Tensor x = Drawn(random, {n.batch, n.in}), y = Drawn(random, {n.batch, n.out});
  std::vector<double> by_trainer, by_trace, by_frozen;
  absl::Status status;
  for (int i = 0; i < steps + 10; ++i) {
    const double t = Microseconds([&] {
      status.Update(trainer->Step({{"x", x}, {"labels", y}}).status());
    });
    const double u = Microseconds([&] { status.Update(traced(x, y)); });
    const double v = Microseconds([&] { status.Update(frozen(x, y)); });
    if (!status.ok()) return status;
    if (i < 10) continue;
    by_trainer.push_back(t);
    by_trace.push_back(u);
    by_frozen.push_back(v);
  }
  std::printf("batch %lld, %lld-%lld-%lld-%lld\n", static_cast<long long>(n.batch),
              static_cast<long long>(n.in), static_cast<long long>(n.hidden),
              static_cast<long long>(n.hidden), static_cast<long long>(n.out));
  Show("trainer", by_trainer, by_trainer);
  Show("trace", by_trace, by_trainer);
  Show("frozen", by_frozen, by_trainer);
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
