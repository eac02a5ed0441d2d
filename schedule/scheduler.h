// SPDX-License-Identifier: Apache-2.0
// Schedulers decide how a Kernel is run: whether one can (Accepts), and with which plain parameters
// (Choose). No Halide here.
//
// A group of graph nodes is legal exactly if some scheduler accepts its Kernel, so Accepts is the
// only rule fusion knows. Decisions are pure functions of (kernel, size class, machine). What
// Choose returns is printable, part of the cache key, and all that halide_gen's Schedule(kernel,
// params) looks at.
#ifndef KILN_SCHEDULE_SCHEDULER_H_
#define KILN_SCHEDULE_SCHEDULER_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/decision.h"
#include "kernel/kernel.h"
#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace kiln {

// What is known of the extents of a kernel's dims when code is generated: one entry per dim. An
// unknown upper bound is kUnbounded. A kernel compiled for a class is right for every tuple of
// extents inside it.
inline constexpr int64_t kUnbounded = INT64_MAX;
struct SizeClass {
  std::vector<int64_t> at_most;
  // True if `extents` (one per dim) lie in the class.
  bool Contains(std::span<const int64_t> extents) const;
};

struct Scheduler {
  const char* name;
  const char* doc;
  Decision (*accepts)(const Kernel& kernel);
  Schedule (*choose)(const Kernel& kernel, const SizeClass& sizes, const Machine& machine);
  // The size classes for which separate code pays, given what is known; tried in order, the last
  // contains all.
  std::vector<SizeClass> (*classes)(const Kernel& kernel, const SizeClass& known);
};

// The first of the target's that accepts, or null with every scheduler's reason (cannot happen
// while the last accepts all).
const Scheduler* FindScheduler(const Kernel& kernel, Target target, std::string* why = nullptr);

}  // namespace kiln

#endif  // KILN_SCHEDULE_SCHEDULER_H_
