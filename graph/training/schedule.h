// SPDX-License-Identifier: Apache-2.0
// Learning rates as functions of the step: computed on the host and handed to a program as its
// input `lr`, so that a schedule changes no program.
//
//   LearningRateSchedule schedule = {.lr = 3e-4, .warmup = 1000, .decay = CosineDecay{100'000}};
//   LearningRate(schedule, step)       // 0 at step 0, 3e-4 at step 1000, 0 at step 101,000
//
// As torch's LinearLR followed by CosineAnnealingLR, StepLR or ExponentialLR.
#ifndef KILN_GRAPH_TRAINING_SCHEDULE_H_
#define KILN_GRAPH_TRAINING_SCHEDULE_H_

#include <cstdint>
#include <variant>

namespace kiln::training {

struct NoDecay {};
// lowest + (lr - lowest) (1 + cos(pi k / steps)) / 2, and `lowest` from step `steps` on
struct CosineDecay {
  int64_t steps = 1;
  double lowest = 0;
};
// lr factor^floor(k / every)
struct StepDecay {
  int64_t every = 1;
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
  std::variant<NoDecay, CosineDecay, StepDecay, ExponentialDecay> decay;
};

// Of step 0, 1, ...: the number of updates before this one.
double LearningRate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace kiln::training

#endif  // KILN_GRAPH_TRAINING_SCHEDULE_H_
