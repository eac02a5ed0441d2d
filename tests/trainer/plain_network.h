// SPDX-License-Identifier: Apache-2.0
// Perceptrons trained by plain loops in f64, as a textbook has them: the judge of trainers. It
// shares nothing with Kiln but the names of options.
#ifndef KILN_TESTS_TRAINER_PLAIN_NETWORK_H_
#define KILN_TESTS_TRAINER_PLAIN_NETWORK_H_

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace kiln::training {

using Numbers = std::vector<double>;

enum class PlainLoss { kCrossEntropy, kSquares, kBinary };

struct PlainNetwork {
  std::vector<size_t> widths;            // of the input and of each layer
  std::vector<std::string> activations;  // of each layer: "tanh", "relu", "sigmoid"; "": none
  std::vector<Numbers> weights, biases;  // [in, out] row-major, [out]

  PlainLoss loss = PlainLoss::kCrossEntropy;
  double smoothing = 0;
  bool adam = false;
  double lr = 0.1, momentum = 0, clip_norm = 0, decay = 0;

  bool bf16_products = false;  // of training: operands and results of products are rounded to bf16

  std::vector<Numbers> first, second;  // moments, weights before biases, layer by layer
  int updates = 0;

  size_t layers() const { return weights.size(); }

  // Of a product's operand or result: 8 significant bits, ties to even.
  static double Bf16(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  }

  // As the model is for inference, which rounds nothing, or for training.
  std::vector<Numbers> Forward(const Numbers& x, size_t n, bool training = false) const {
    const auto r = [&](double v) { return training && bf16_products ? Bf16(v) : v; };
    std::vector<Numbers> values = {x};
    for (size_t l = 0; l < layers(); ++l) {
      const size_t in = widths[l], out = widths[l + 1];
      Numbers y(n * out);
      for (size_t i = 0; i < n; ++i) {
        for (size_t o = 0; o < out; ++o) {
          double sum = 0;
          for (size_t k = 0; k < in; ++k)
            sum += r(values.back()[i * in + k]) * r(weights[l][k * out + o]);
          y[i * out + o] = Activated(activations[l], r(sum) + biases[l][o]);
        }
      }
      values.push_back(std::move(y));
    }
    return values;
  }

  // Of n samples. Labels: n classes, or n * out numbers.
  double Step(const Numbers& x, const Numbers& labels, size_t n) {
    const auto r = [&](double v) { return bf16_products ? Bf16(v) : v; };
    const std::vector<Numbers> values = Forward(x, n, /*training=*/true);
    Numbers back;
    const double value = LossOf(values.back(), labels, n, back);
    std::vector<Numbers> gradients(2 * layers());
    for (size_t l = layers(); l-- > 0;) {
      const size_t in = widths[l], out = widths[l + 1];
      for (size_t i = 0; i < n * out; ++i) back[i] *= Slope(activations[l], values[l + 1][i]);
      Numbers dw(in * out), db(out), before(n * in);
      for (size_t i = 0; i < n; ++i) {
        for (size_t o = 0; o < out; ++o) {
          const double g = back[i * out + o];
          db[o] += g;
          for (size_t k = 0; k < in; ++k) {
            dw[k * out + o] += r(values[l][i * in + k]) * r(g);
            before[i * in + k] += r(weights[l][k * out + o]) * r(g);
          }
        }
      }
      for (Numbers* const product : {&dw, &before}) {
        for (double& value : *product) value = r(value);
      }
      gradients[2 * l] = std::move(dw);
      gradients[2 * l + 1] = std::move(db);
      back = std::move(before);
    }
    Update(gradients);
    return value;
  }

  double LossOf(const Numbers& y, const Numbers& labels, size_t n, Numbers& gradient) const {
    const size_t c = widths.back();
    const auto count = static_cast<double>(n), all = static_cast<double>(n * c);
    gradient.assign(n * c, 0);
    double loss = 0;
    for (size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (size_t k = 0; k < c; ++k) sum += std::exp(y[i * c + k]);
      for (size_t k = 0; k < c; ++k) {
        const double z = y[i * c + k];
        double& g = gradient[i * c + k];
        if (loss_is(PlainLoss::kCrossEntropy)) {
          const double share = smoothing / static_cast<double>(c);
          const double wanted = (static_cast<double>(k) == labels[i] ? 1 - smoothing : 0) + share;
          loss -= wanted * (z - std::log(sum)) / count;
          g = (std::exp(z) / sum - wanted) / count;
        } else if (loss_is(PlainLoss::kSquares)) {
          const double d = z - labels[i * c + k];
          loss += d * d / all;
          g = 2 * d / all;
        } else {
          const double s = 1 / (1 + std::exp(-z)), wanted = labels[i * c + k];
          loss -= (wanted * std::log(s) + (1 - wanted) * std::log(1 - s)) / all;
          g = (s - wanted) / all;
        }
      }
    }
    return loss;
  }

 private:
  bool loss_is(PlainLoss other) const { return loss == other; }

  static double Activated(const std::string& name, double x) {
    if (name == "tanh") return std::tanh(x);
    if (name == "relu") return x > 0 ? x : 0;
    if (name == "sigmoid") return 1 / (1 + std::exp(-x));
    return x;
  }
  static double Slope(const std::string& name, double y) {
    if (name == "tanh") return 1 - y * y;
    if (name == "relu") return y > 0 ? 1 : 0;
    if (name == "sigmoid") return y * (1 - y);
    return 1;
  }

  void Update(std::vector<Numbers>& gradients) {
    ++updates;
    first.resize(gradients.size());
    second.resize(gradients.size());
    double squares = 0;
    for (const Numbers& gradient : gradients) {
      for (const double g : gradient) squares += g * g;
    }
    const double factor = clip_norm > 0 ? std::fmin(1, clip_norm / (std::sqrt(squares) + 1e-6)) : 1;
    for (size_t k = 0; k < gradients.size(); ++k) {
      Numbers& p = k % 2 == 0 ? weights[k / 2] : biases[k / 2];
      first[k].resize(p.size());
      second[k].resize(p.size());
      for (size_t i = 0; i < p.size(); ++i) {
        const double g = gradients[k][i] * factor + decay * p[i];
        double &m = first[k][i], &v = second[k][i];
        if (adam) {
          m = 0.9 * m + 0.1 * g;
          v = 0.999 * v + 0.001 * g * g;
          const double mean = m / (1 - std::pow(0.9, updates));
          const double square = v / (1 - std::pow(0.999, updates));
          p[i] -= lr * mean / (std::sqrt(square) + 1e-8);
        } else {
          m = momentum * m + g;
          p[i] -= lr * m;
        }
      }
    }
  }
};

// One of 1 to 3 layers.
inline PlainNetwork DrawnNetwork(std::mt19937& random) {
  const auto any = [&](unsigned n) { return static_cast<size_t>(random() % n); };
  const std::vector<std::string> names = {"tanh", "relu", "sigmoid"};
  std::normal_distribution<double> normal(0, 0.7);
  PlainNetwork net;
  net.widths = {1 + any(5)};
  const size_t layers = 1 + any(3);
  for (size_t l = 0; l < layers; ++l) {
    const size_t out = (l + 1 == layers ? 2 : 1) + any(6);
    net.activations.push_back(l + 1 == layers ? "" : names[any(3)]);
    net.weights.emplace_back();
    net.biases.emplace_back();
    for (size_t i = 0; i < net.widths.back() * out; ++i)
      net.weights[l].push_back(static_cast<float>(normal(random)));
    for (size_t i = 0; i < out; ++i) net.biases[l].push_back(static_cast<float>(normal(random)));
    net.widths.push_back(out);
  }
  net.loss = static_cast<PlainLoss>(any(3));
  if (net.loss == PlainLoss::kCrossEntropy && any(2) == 1) net.smoothing = 0.125;
  net.adam = any(2) == 1;
  net.lr = net.adam ? 0.01 : 0.125;
  if (!net.adam && any(2) == 1) net.momentum = 0.75;
  if (any(3) == 0) net.clip_norm = 0.25;
  if (any(3) == 0) net.decay = 0.0625;
  return net;
}

}  // namespace kiln::training

#endif  // KILN_TESTS_TRAINER_PLAIN_NETWORK_H_
