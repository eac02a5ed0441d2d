// SPDX-License-Identifier: Apache-2.0
// What a model is trained by, as plain options: optimizers and learning rates. kiln/trainer.h takes
// them.
//
//   kiln::training::Optimizer optimizer = kiln::training::AdamW{.weight_decay = 0.1};
//   kiln::training::LearningRateSchedule schedule = {
//       .lr = 3e-4, .warmup = 1000, .decay = kiln::training::CosineDecay{100'000}};
//   kiln::training::LearningRate(schedule, step);  // 0 at step 0, 3e-4 at step 1000
//
// The formulas are those of torch.optim (2.x, its defaults too but for the learning rate, which is
// 1e-3 for all) and for Lion that of Chen et al., "Symbolic discovery of optimization algorithms"
// (2023). Below, t counts updates from 1, p is a parameter, g its gradient, lr the learning rate;
// moments (buffer, m, v, sum, ...) begin as zeros. What all elements share (bias corrections) is
// computed in f64 from lr and t and rounded once to the type that the update computes in: the
// parameter's, f32 for 16-bit floats.
#ifndef KILN_TRAINING_H_
#define KILN_TRAINING_H_

#include <cstdint>
#include <variant>

#include "kiln/status.h"

namespace kiln::training {

// g += weight_decay p
// buffer = momentum buffer + (1 - dampening) g;  without dampening where t is 1
// p -= lr buffer, or nesterov: lr (g + momentum buffer);  without momentum: lr g
struct Sgd {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};

// g += weight_decay p
// m += (1 - beta1) (g - m),  v = beta2 v + (1 - beta2) g g
// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  // Epsilon is added to sqrt(v) before its correction, the "epsilon hat" of Kingma and Ba, which
  // ONNX has: p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon).
  bool epsilon_hat = false;
};

// p *= 1 - lr weight_decay, then as Adam without weight decay.
struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
};

// g += weight_decay p
// sum += g g
// p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + epsilon)
struct Adagrad {
  double lr_decay = 0, weight_decay = 0, epsilon = 1e-10;
};

// g += weight_decay p
// square = alpha square + (1 - alpha) g g
// centered: mean += (1 - alpha) (g - mean), and below square - mean mean in place of square
// buffer = momentum buffer + g / (sqrt(square) + epsilon)
// p -= lr buffer
struct RmsProp {
  double alpha = 0.99, epsilon = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
};

// c = beta1 m + (1 - beta1) g
// p = p (1 - lr weight_decay) - lr sign(c)
// m = beta2 m + (1 - beta2) g
struct Lion {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

using Optimizer = std::variant<Sgd, Adam, AdamW, Adagrad, RmsProp, Lion>;

// ---- Learning rates as functions of the step, as torch's LinearLR followed by CosineAnnealingLR,
// StepLR or ExponentialLR.

struct NoDecay {};
// lowest + (lr - lowest) (1 + cos(pi k / steps)) / 2, and `lowest` from step `steps` on
struct CosineDecay {
  int64_t steps = 0;  // to be given: without it a trainer refuses the schedule
  double lowest = 0;
};
// lr factor^floor(k / every)
struct StepDecay {
  int64_t every = 0;  // to be given, likewise
  double factor = 0.1;
};
// lr factor^k
struct ExponentialDecay {
  double factor = 0.99;
};

struct LearningRateSchedule {
  double lr = 1e-3;
  // From warmup_start * lr at step 0 in even steps to lr at step `warmup`, from where k counts.
  int64_t warmup = 0;
  double warmup_start = 0;
  std::variant<NoDecay, CosineDecay, StepDecay, ExponentialDecay> decay = {};
};

// Of step 0, 1, ...: the number of updates before this one. Thread-safe.
KILN_API double LearningRate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace kiln::training

#endif  // KILN_TRAINING_H_
