// SPDX-License-Identifier: Apache-2.0
#include "training/schedule.h"

#include <cmath>
#include <cstdint>
#include <variant>

#include "base/status.h"
#include "base/status_macros.h"

namespace kiln::training {
namespace {

absl::Status NotNegative(const char* name, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return Invalid("schedule: ", name, " is ", value, "; it is a finite number from 0 on");
}

absl::Status AtLeast(const char* name, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return Invalid("schedule: ", name, " is ", value, "; it is ", least, " or above");
}

absl::Status Check(const NoDecay&) { return absl::OkStatus(); }
absl::Status Check(const CosineDecay& decay) {
  KILN_RETURN_IF_ERROR(AtLeast("steps", decay.steps, 1));
  return NotNegative("lowest", decay.lowest);
}
absl::Status Check(const StepDecay& decay) {
  KILN_RETURN_IF_ERROR(AtLeast("every", decay.every, 1));
  return NotNegative("factor", decay.factor);
}
absl::Status Check(const ExponentialDecay& decay) { return NotNegative("factor", decay.factor); }

}  // namespace

absl::Status CheckSchedule(const LearningRateSchedule& schedule) {
  KILN_RETURN_IF_ERROR(NotNegative("lr", schedule.lr));
  KILN_RETURN_IF_ERROR(AtLeast("warmup", schedule.warmup, 0));
  KILN_RETURN_IF_ERROR(NotNegative("warmup_start", schedule.warmup_start));
  return std::visit([](const auto& decay) { return Check(decay); }, schedule.decay);
}

}  // namespace kiln::training
