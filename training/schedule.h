// SPDX-License-Identifier: Apache-2.0
// What learning-rate schedules must be.
#ifndef KILN_TRAINING_SCHEDULE_H_
#define KILN_TRAINING_SCHEDULE_H_

#include "absl/status/status.h"
#include "kiln/training.h"

namespace kiln::training {

// kInvalidArgument names the option and its range.
absl::Status CheckSchedule(const LearningRateSchedule& schedule);

}  // namespace kiln::training

#endif  // KILN_TRAINING_SCHEDULE_H_
