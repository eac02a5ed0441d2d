// SPDX-License-Identifier: Apache-2.0
// Schedulers decide how a Kernel is run: whether one can (Accepts), and with which plain parameters
// (Choose). No Halide here.
//
// A group of graph nodes is legal exactly if some scheduler accepts its Kernel, so Accepts is the
// only rule fusion knows. Decisions are pure functions of (kernel, size class, profile). What
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
#include "base/cpu_features.h"
#include "base/decision.h"
#include "kernel/kernel.h"
#include "kernel/params.h"

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

// Numbers of a machine level that decisions depend on; one shipped per IsaLevel.
struct MachineProfile {
  IsaLevel isa = IsaLevel::kV3;
  int vector_bytes = 32;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t parallel_grain = 1 << 15;  // elements of work below which a task is not worth a thread

  // True if a vector is as long as a line, so that any store that is not aligned crosses lines.
  bool VectorsFillLines() const { return vector_bytes == 64; }
};
const MachineProfile& ProfileFor(IsaLevel isa);

struct Scheduler {
  const char* name;
  const char* doc;
  Decision (*accepts)(const Kernel& kernel);
  Params (*choose)(const Kernel& kernel, const SizeClass& sizes, const MachineProfile& profile);
  // The size classes for which separate code pays, given what is known; tried in order, the last
  // contains all.
  std::vector<SizeClass> (*classes)(const Kernel& kernel, const SizeClass& known);
};

// The CPU schedulers, best first; the last accepts everything the grammar can say.
std::span<const Scheduler> CpuSchedulers();

// The first that accepts, or a no with every scheduler's reason (cannot happen while the last
// accepts all).
const Scheduler* FindScheduler(const Kernel& kernel, std::string* why = nullptr);

}  // namespace kiln

#endif  // KILN_SCHEDULE_SCHEDULER_H_
