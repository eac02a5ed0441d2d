// SPDX-License-Identifier: Apache-2.0
// A small network learns which of two arms of a spiral a point is on. A step (the loss, its
// gradients and the new parameters) is one traced function: the first call records it, the others
// run it as one compiled program.
//
//   network [STEPS]
#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_grad.h"
#include "kiln/trace_ops.h"

namespace {

using kiln::Array;

constexpr int64_t kPoints = 256, kHidden = 32;

// Above 0 for one arm, below for the other.
Array Score(const Array& w1, const Array& b1, const Array& w2, const Array& b2, const Array& w3,
            const Array& x) {
  const Array first = kiln::tanh(kiln::matmul(x, w1) + b1);
  return kiln::matmul(kiln::tanh(kiln::matmul(first, w2) + b2), w3);
}

// The logistic loss of labels 1 and -1.
Array Loss(const Array& w1, const Array& b1, const Array& w2, const Array& b2, const Array& w3,
           const Array& x, const Array& label) {
  return kiln::reduce_mean(kiln::softplus(-label * Score(w1, b1, w2, b2, w3, x)), {.keepdims = 0});
}

std::array<Array, 6> Step(const Array& w1, const Array& b1, const Array& w2, const Array& b2,
                          const Array& w3, const Array& x, const Array& label, const Array& rate) {
  const auto [loss, d_w1, d_b1, d_w2, d_b2, d_w3] =
      kiln::value_and_grad<0, 1, 2, 3, 4>(Loss)(w1, b1, w2, b2, w3, x, label);
  return {loss,
          w1 - rate * d_w1,
          b1 - rate * d_b1,
          w2 - rate * d_w2,
          b2 - rate * d_b2,
          w3 - rate * d_w3};
}

struct Spiral {
  std::vector<float> points, labels;
};
Spiral Drawn(std::mt19937& random) {
  std::normal_distribution<float> noise(0, 0.05f);
  Spiral spiral;
  for (int64_t i = 0; i < kPoints; ++i) {
    const float side = i % 2 == 0 ? 1.0f : -1.0f;
    const float t = static_cast<float>(i) / kPoints;
    const float angle = 5 * t, radius = 0.3f + 2 * t;
    spiral.points.push_back(side * radius * std::cos(angle) + noise(random));
    spiral.points.push_back(side * radius * std::sin(angle) + noise(random));
    spiral.labels.push_back(side);
  }
  return spiral;
}

Array Weights(std::mt19937& random, int64_t in, int64_t out) {
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(in)));
  std::vector<float> values(static_cast<size_t>(in * out));
  for (float& value : values) value = normal(random);
  return Array::from(values.data(), {in, out});
}

absl::Status Run(int steps) {
  std::mt19937 random(3);
  const Spiral spiral = Drawn(random);
  const Array x = Array::from(spiral.points.data(), {kPoints, 2});
  const Array label = Array::from(spiral.labels.data(), {kPoints, 1});
  const Array rate = Array::from(std::vector<float>{0.5f});
  Array w1 = Weights(random, 2, kHidden), w2 = Weights(random, kHidden, kHidden);
  Array w3 = Weights(random, kHidden, 1);
  Array b1 = Array::full({kHidden}, 0), b2 = b1, loss;
  auto step = kiln::trace(Step);
  for (int i = 0; i < steps; ++i) {
    std::array<Array, 6> next = step(w1, b1, w2, b2, w3, x, label, rate);
    loss = next[0], w1 = next[1], b1 = next[2], w2 = next[3], b2 = next[4], w3 = next[5];
  }
  const Array right =
      kiln::cast(Score(w1, b1, w2, b2, w3, x) * label > 0.0f, {.to = kiln::DType::kF32});
  const absl::StatusOr<float> share = kiln::reduce_mean(right, {.keepdims = 0}).item<float>();
  const absl::StatusOr<float> last = loss.item<float>();
  if (!share.ok()) return share.status();
  if (!last.ok()) return last.status();
  std::cout << steps << " steps: loss " << *last << ", right " << 100 * *share << " %, "
            << step.stats().replays << " replays of " << step.stats().operations << " operations\n";
  return *share > 0.98f ? absl::OkStatus() : absl::InternalError("the network has not learnt");
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? std::atoi(argv[1]) : 1000);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
