// SPDX-License-Identifier: Apache-2.0
// Trains a small network on the handwritten digits of scikit-learn, 8 x 8 pixels each, from several
// seeds, and says what share it gets right of each fifth digit, which it has not seen.
//
//   train_digits digits.csv [SEEDS [EPOCHS]]
//
// digits.csv has a line for each digit: 64 numbers from 0 to 16 and what digit it is.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kiln/trainer.h"

namespace {

constexpr int64_t kPixels = 64, kSide = 8, kDigits = 10, kBatch = 32;

struct Digits {
  std::vector<float> pixels;    // from 0 to 1, 64 for each
  std::vector<int64_t> labels;  // from 0 to 9
};

absl::StatusOr<Digits> Read(const char* path) {
  std::ifstream file(path);
  Digits digits;
  for (std::string line; std::getline(file, line);) {
    std::stringstream cells(line);
    std::vector<double> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(std::atof(cell.c_str()));
    if (row.size() != kPixels + 1)
      return absl::DataLossError(std::string(path) + ": a line has no 65 numbers");
    for (int64_t i = 0; i < kPixels; ++i)
      digits.pixels.push_back(static_cast<float>(row[static_cast<size_t>(i)] / 16));
    digits.labels.push_back(static_cast<int64_t>(row[kPixels]));
  }
  if (digits.labels.size() < 1000)
    return absl::NotFoundError(std::string(path) +
                               ": has no digits; examples/train_digits/run "
                               "fetches them");
  return digits;
}

// The digits of these numbers, as inputs of a step.
kiln::NamedTensors Some(const Digits& digits, const std::vector<size_t>& order, size_t begin,
                        size_t end) {
  const auto n = static_cast<int64_t>(end - begin);
  kiln::Tensor x = kiln::Tensor::Allocate(kiln::DType::kF32, {n, 1, kSide, kSide});
  kiln::Tensor labels = kiln::Tensor::Allocate(kiln::DType::kI64, {n});
  for (size_t i = begin; i < end; ++i) {
    std::memcpy(static_cast<float*>(x.data()) + (i - begin) * kPixels,
                &digits.pixels[order[i] * kPixels], kPixels * sizeof(float));
    static_cast<int64_t*>(labels.data())[i - begin] = digits.labels[order[i]];
  }
  return {{"x", x}, {"labels", labels}};
}

// Weights as He et al. (2015) draw them.
kiln::Tensor Drawn(std::mt19937& random, std::vector<int64_t> shape, int64_t inputs) {
  std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(inputs)));
  kiln::Tensor tensor = kiln::Tensor::Allocate(kiln::DType::kF32, std::move(shape));
  auto* const data = static_cast<float*>(tensor.data());
  std::generate(data, data + tensor.num_elements(), [&] { return normal(random); });
  return tensor;
}

kiln::Tensor Filled(int64_t n, float value) {
  kiln::Tensor tensor = kiln::Tensor::Allocate(kiln::DType::kF32, {n});
  std::fill_n(static_cast<float*>(tensor.data()), n, value);
  return tensor;
}

// A convolution, a batch norm and two dense layers with dropout between them.
kiln::GraphBuilder Network(unsigned seed) {
  constexpr int64_t kChannels = 16, kHidden = 64;
  std::mt19937 random(seed);
  kiln::GraphBuilder b("digits");
  kiln::ValueId x = b.Input("x", kiln::DType::kF32, {kiln::Dim::Symbol("n"), 1, kSide, kSide});
  kiln::ValueId filters = b.Constant(Drawn(random, {kChannels, 1, 3, 3}, 9), "conv.weight");
  kiln::ValueId y = b.Op("conv", {x, filters}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  y = b.Op("batch_norm", {y, b.Constant(Filled(kChannels, 1), "norm.scale"),
                          b.Constant(Filled(kChannels, 0), "norm.bias"),
                          b.Constant(Filled(kChannels, 0), "norm.mean"),
                          b.Constant(Filled(kChannels, 1), "norm.variance")});
  y = b.Op("relu", {y});
  y = b.Op("reshape", {y}, {{"shape", std::vector<int64_t>{-1, kChannels * kPixels}}});
  y = b.Op("matmul",
           {y, b.Constant(Drawn(random, {kChannels * kPixels, kHidden}, kChannels * kPixels),
                          "hidden.weight")});
  y = b.Op("relu", {b.Op("add", {y, b.Constant(Filled(kHidden, 0), "hidden.bias")})});
  y = b.Ops("dropout", {y}, {{"ratio", 0.25}})[0];
  y = b.Op("matmul", {y, b.Constant(Drawn(random, {kHidden, kDigits}, kHidden), "digit.weight")});
  b.Output(b.Op("add", {y, b.Constant(Filled(kDigits, 0), "digit.bias")}), "logits");
  return b;
}

// The share of digits whose largest logit is that of their label.
double Accuracy(const kiln::Tensor& logits, const kiln::Tensor& labels) {
  const auto* const z = static_cast<const float*>(logits.data());
  const auto* const wanted = static_cast<const int64_t*>(labels.data());
  const int64_t n = labels.shape()[0];
  int64_t right = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float* const row = z + i * kDigits;
    right += std::max_element(row, row + kDigits) - row == wanted[i];
  }
  return static_cast<double>(right) / static_cast<double>(n);
}

// Numbers of digits: first those to train on, then each fifth, which the network never sees.
struct Split {
  std::vector<size_t> order;
  size_t trained = 0;
};
Split FixedSplit(size_t digits) {
  Split split;
  for (const bool seen : {true, false}) {
    for (size_t i = 0; i < digits; ++i) {
      if ((i % 5 != 0) == seen) split.order.push_back(i);
    }
    if (seen) split.trained = split.order.size();
  }
  return split;
}

// The accuracy on the digits that were not trained on.
absl::StatusOr<double> Train(const Digits& digits, unsigned seed, int epochs) {
  auto [order, count] = FixedSplit(digits.labels.size());
  const auto steps = static_cast<int64_t>(count / kBatch) * epochs;
  kiln::TrainerOptions options;
  options.loss = kiln::training::CrossEntropyLoss{.label_smoothing = 0.05};
  options.optimizer = kiln::training::AdamW{.weight_decay = 0.01};
  options.schedule = {.lr = 3e-3, .decay = kiln::training::CosineDecay{steps}};
  options.seed = seed;
  options.compile.threads = 1;  // threads do not pay for so small a network
  absl::StatusOr<kiln::Trainer> trainer = kiln::Trainer::Create(Network(seed), options);
  if (!trainer.ok()) return trainer.status();

  std::mt19937 random(seed);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), random);
    for (size_t begin = 0; begin + kBatch <= count; begin += kBatch) {
      absl::StatusOr<double> loss = trainer->Step(Some(digits, order, begin, begin + kBatch));
      if (!loss.ok()) return loss.status();
    }
  }
  const kiln::NamedTensors test = Some(digits, order, count, order.size());
  absl::StatusOr<kiln::Evaluation> found = trainer->Evaluate(test);
  if (!found.ok()) return found.status();
  return Accuracy(found->outputs[0], test[1].second);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: train_digits digits.csv [SEEDS [EPOCHS]]\n");
    return 2;
  }
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 5, epochs = argc > 3 ? std::atoi(argv[3]) : 20;
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<Digits> digits = Read(argv[1]);
  if (!digits.ok()) {
    std::fprintf(stderr, "train_digits: %s\n", std::string(digits.status().message()).c_str());
    return 7;
  }
  double sum = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const absl::StatusOr<double> accuracy = Train(*digits, static_cast<unsigned>(seed), epochs);
    if (!accuracy.ok()) {
      std::fprintf(stderr, "train_digits: %s\n", std::string(accuracy.status().message()).c_str());
      return 1;
    }
    std::printf("seed %d: %.2f %%\n", seed, 100 * *accuracy);
    std::fflush(stdout);
    sum += *accuracy;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double mean = 100 * sum / std::max(seeds, 1);
  std::printf("mean: %.2f %% in %.1f s\n", mean, seconds.count());
  return mean >= 97 ? 0 : 1;
}
