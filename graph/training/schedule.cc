// SPDX-License-Identifier: Apache-2.0
#include "kiln/training.h"

#include <algorithm>
#include <cmath>

namespace kiln::training {
namespace {

double Decayed(const NoDecay&, double lr, int64_t) { return lr; }

double Decayed(const CosineDecay& decay, double lr, int64_t k) {
  if (k >= decay.steps) return decay.lowest;
  const double part = static_cast<double>(k) / static_cast<double>(decay.steps);
  return decay.lowest + (lr - decay.lowest) * (1 + std::cos(M_PI * part)) / 2;
}

double Decayed(const StepDecay& decay, double lr, int64_t k) {
  const int64_t times = k / std::max<int64_t>(decay.every, 1);
  return lr * std::pow(decay.factor, static_cast<double>(times));
}

double Decayed(const ExponentialDecay& decay, double lr, int64_t k) {
  return lr * std::pow(decay.factor, static_cast<double>(k));
}

}  // namespace

double LearningRate(const LearningRateSchedule& schedule, int64_t step) {
  if (step < schedule.warmup) {
    const double part = static_cast<double>(step) / static_cast<double>(schedule.warmup);
    return schedule.lr * (schedule.warmup_start + (1 - schedule.warmup_start) * part);
  }
  const int64_t k = step - schedule.warmup;
  return std::visit([&](const auto& decay) { return Decayed(decay, schedule.lr, k); },
                    schedule.decay);
}

}  // namespace kiln::training
