// SPDX-License-Identifier: Apache-2.0
// (Kernel, Schedule, target) -> lowered Halide module. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_EMIT_H_
#define KILN_HALIDE_GEN_CPU_EMIT_H_

#include <Halide.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/target.h"
#include "kernel/kernel.h"
#include "schedule/schedule.h"

namespace kiln {

// The Halide target of a CPU level, never that of this machine. kInvalidArgument below x86-64-v3.
absl::StatusOr<Halide::Target> HalideTargetOf(Target target);

// For people and measurements; nothing of it is in a key.
struct EmitSettings {
  std::vector<std::string> without = {};  // lowering passes that do not run
  std::string* trace = nullptr;           // gets the statement after each pass
};

// A module with one function "k" whose arguments are those of kernel/abi.h. kInvalidArgument if the
// template of `schedule` does not accept the kernel; kUnimplemented for what 32-bit index
// arithmetic cannot say or a function has no expansion. Halide's own errors are thrown as
// Halide::Error.
absl::StatusOr<Halide::Module> EmitModule(const Kernel& kernel, const Schedule& schedule,
                                          const Halide::Target& target,
                                          const EmitSettings& settings = {});

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_EMIT_H_
