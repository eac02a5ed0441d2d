// SPDX-License-Identifier: Apache-2.0
// Ranges of the fields of CPU schedules: beyond them code would be nonsense, or take seconds to
// compile. None of them is about speed.
#ifndef KILN_SCHEDULE_CPU_LIMITS_H_
#define KILN_SCHEDULE_CPU_LIMITS_H_

#include <cstdint>

#include "kernel/kernel.h"
#include "schedule/schedule.h"

namespace kiln {

// Lanes of the longest vector, so that code stays short.
inline constexpr int64_t kMostLanes = 256;         // compile time
inline constexpr Range kStepRange{1, kMostLanes};  // correctness

// Short rows, or columns, that take a stage together: one after the other, or folded in vectors.
inline constexpr int64_t kMostBatch = 8;    // speed
inline constexpr int64_t kMostFolded = 16;  // speed

// Extents up to this may be constants of the code.
inline constexpr int64_t kMostKnown = 16;  // compile time

// Numbers of inputs and stages; lists of them name no others.
inline constexpr Range kOperandRange{0, 1 << 10};  // correctness
inline constexpr Range kStageRange{0, 1 << 10};    // correctness

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_LIMITS_H_
